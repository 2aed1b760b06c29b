#include "tools/cli/flags/file_keys.h"

#include <set>

namespace tandem {
namespace {

class KeyReader final : public HelpReader {
 public:
  void read(const Subcommands& commands) override {
    for (const Subcommand& row : commands.rows) row.run({"--help"});
  }

  void read(const CommandInfo&, const SettingsTable& table) override {
    for (const SettingsField& field : table.fields()) {
      if (field.facts().has_key) keys.insert(field.facts().key);
    }
  }

  std::set<std::string> keys;
};

}  // namespace

std::vector<std::string> file_keys(const Subcommands& commands) {
  KeyReader reader;
  reader.read(commands);
  return {reader.keys.begin(), reader.keys.end()};
}

}  // namespace tandem
