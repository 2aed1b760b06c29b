#include "tools/manual/command_tree.h"

#include <fmt/format.h>

#include <utility>

namespace tandem {
namespace {

// The parts of "Usage: tandem bench NAME [flags]", the paragraphs after it and the table's title
// with ':'.
struct Head {
  std::string usage;
  std::string description;
};

Head read_head(const Subcommands& commands) {
  Head head;
  std::string_view rest = commands.head;
  while (!rest.empty()) {
    const std::size_t end = rest.find("\n\n");
    std::string paragraph(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 2);
    const std::string usage = fmt::format("Usage: {} ", commands.program);
    if (paragraph.starts_with(usage)) {
      head.usage = paragraph.substr(usage.size());
    } else if (!paragraph.ends_with(":\n")) {
      head.description += paragraph + "\n";
    }
  }
  head.description += commands.foot;
  return head;
}

class Reader final : public HelpReader {
 public:
  explicit Reader(Command& root) : at_(&root) {}

  void read(const Subcommands& commands) override {
    Command& here = *at_;
    Head head = read_head(commands);
    here.usage = std::move(head.usage);
    here.description = std::move(head.description);
    here.subcommands.reserve(commands.rows.size());  // at_ points to an element
    for (const Subcommand& row : commands.rows) {
      at_ = &here.subcommands.emplace_back();
      at_->name = fmt::format("{} {}", commands.program, row.name);
      at_->summary = row.summary;
      row.run({"--help"});
    }
  }

  void read(const CommandInfo& command, const SettingsTable& table) override {
    at_->usage = command.usage;
    at_->description = command.summary;
    at_->examples = command.examples;
    for (const SettingsField& field : table.fields()) {
      if (field.facts().has_flag && !field.facts().expert) at_->flags.push_back(field.facts());
    }
  }

 private:
  Command* at_;
};

void append(const Command& command, std::vector<const Command*>& all) {
  all.push_back(&command);
  for (const Command& below : command.subcommands) append(below, all);
}

}  // namespace

Command read_commands(const Subcommands& commands) {
  Command root;
  root.name = commands.program;
  root.summary = "serve one base LLM and many LoRA adapters";
  Reader reader(root);
  reader.read(commands);
  return root;
}

std::vector<const Command*> all_of(const Command& root) {
  std::vector<const Command*> all;
  append(root, all);
  return all;
}

std::vector<std::string> spellings_of(const SettingsFacts& flag) {
  std::vector<std::string> spellings{flag_of(flag)};
  if (has_no_form(flag)) spellings.push_back("--no-" + spellings.front().substr(2));
  if (flag.letter != 0) spellings.push_back({'-', flag.letter});
  return spellings;
}

ValueKind value_kind_of(const SettingsFacts& flag) {
  if (is_bool(flag)) return ValueKind::none;
  if (!flag.choices.empty()) return ValueKind::choices;
  if (flag.meta == "DIR" || flag.meta == "NAME|DIR") return ValueKind::folder;
  if (flag.meta == "FILE" || flag.meta == "OLD") return ValueKind::file;
  return ValueKind::other;
}

}  // namespace tandem
