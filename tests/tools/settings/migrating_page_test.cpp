// Checks docs/migrating.md: Tandem flags on it exist, and every other flag has a hint.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "tools/cli/flags/foreign_flags.h"
#include "tools/settings/engine_settings.h"

namespace tandem {
namespace {

std::set<std::string> flags_of_serve() {
  EngineSettings engine;
  ServerSettings server;
  SettingsTable table;
  add_serve_settings(table, engine, server);
  std::set<std::string> flags;
  for (const SettingsField& field : table.fields()) {
    flags.insert(flag_of(field.facts()));
    if (is_bool(field.facts())) flags.insert("--no-" + flag_of(field.facts()).substr(2));
  }
  return flags;
}

// Returns each "--name" in a text.
std::set<std::string> flags_in(const std::string& text) {
  constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-";
  std::set<std::string> flags;
  for (std::size_t at = 0; (at = text.find("--", at)) != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_not_of(kLetters, at), text.size());
    if (text.find_first_not_of('-', at) < end) flags.insert(text.substr(at, end - at));
    at = end;
  }
  return flags;
}

TEST(MigratingPage, NamesFlagsThatAreThereAndOthersThatAreAnswered) {
  const std::set<std::string> ours = flags_of_serve();
  std::ifstream page("../docs/migrating.md");
  int rows = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `--")) continue;
    ++rows;
    const std::size_t middle = line.find(" | ");
    ASSERT_NE(middle, std::string::npos) << line;
    for (const std::string& flag : flags_in(line.substr(0, middle))) {
      EXPECT_FALSE(ours.contains(flag)) << flag << " is a flag here, too: " << line;
      EXPECT_NE(foreign_flag_hint(flag), "")
          << "`tandem serve " << flag << "` says nothing of it: " << line;
    }
    for (const std::string& flag : flags_in(line.substr(middle))) {
      EXPECT_TRUE(ours.contains(flag) || !foreign_flag_hint(flag).empty())
          << "`tandem serve` has no " << flag << ": " << line;
    }
  }
  EXPECT_GT(rows, 50);
}

TEST(MigratingPage, HintsNameFlagsThatAreThere) {
  const std::set<std::string> ours = flags_of_serve();
  std::stringstream source;
  source << std::ifstream("../docs/migrating.md").rdbuf();
  for (const std::string& flag : flags_in(source.str())) {
    for (const std::string& named : flags_in(std::string(foreign_flag_hint(flag)))) {
      EXPECT_TRUE(ours.contains(named)) << "the hint for " << flag << " names " << named;
    }
  }
}

}  // namespace
}  // namespace tandem
