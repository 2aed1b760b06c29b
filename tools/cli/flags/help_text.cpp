#include "tools/cli/flags/help_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {
namespace {

// Breaks `text` into lines that begin with `indent` and are no wider than kWidth where words allow.
std::string wrapped(std::string_view text, std::string_view indent) {
  constexpr std::size_t kWidth = 96;
  std::string out;
  std::size_t column = 0;  // 0: a line begins
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (word.empty()) continue;
    if (column > 0 && column + 1 + word.size() > kWidth) {
      out += '\n';
      column = 0;
    }
    out += column == 0 ? indent : " ";
    column += (column == 0 ? indent.size() : 1) + word.size();
    out += word;
  }
  return out + "\n";
}

// Examples: "-h, --help", "--[no-]pin", "--port N".
std::string names_of(const SettingsFacts& facts) {
  std::string names = facts.letter != 0 ? fmt::format("-{}, ", facts.letter) : "";
  const std::string flag = flag_of(facts);
  names += has_no_form(facts) ? "--[no-]" + flag.substr(2) : flag;
  if (const std::string value = value_name_of(facts); !value.empty()) names += " " + value;
  return is_list(facts) ? names + " ..." : names;
}

std::string describe(const SettingsFacts& facts) {
  std::string where;
  const auto add = [&](const std::string& fact) { where += (where.empty() ? "" : ", ") + fact; };
  if (!facts.default_text.empty() && !facts.secret && !(is_bool(facts) && !has_no_form(facts))) {
    add("default " + facts.default_text);
  }
  if (facts.key == "config") add("TANDEM_CONFIG");
  if (!environment_of(facts).empty()) add(environment_of(facts));
  if (facts.has_key) add("key " + facts.key);

  constexpr std::string_view kIndent = "      ";
  std::string out = fmt::format("  {}\n{}", names_of(facts), wrapped(facts.help, kIndent));
  if (!where.empty()) out += wrapped(fmt::format("({})", where), kIndent);
  return out;
}

}  // namespace

std::string help_text(const CommandInfo& command, const SettingsTable& table, bool all) {
  std::string out =
      fmt::format("Usage: tandem {} {}\n\n{}\n", command.name, command.usage, command.summary);
  // Groups in the order of their first fields; a group's fields need not be adjacent.
  std::vector<std::pair<std::string, std::string>> groups;
  for (const SettingsField& field : table.fields()) {
    if (!field.facts().has_flag || (field.facts().expert && !all)) continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& known) {
      return known.first == field.facts().group;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), {field.facts().group, ""});
    group->second += describe(field.facts());
  }
  for (const auto& [name, text] : groups) out += fmt::format("\n{}:\n{}", name, text);
  if (!command.examples.empty()) out += fmt::format("\nExamples:\n{}\n", command.examples);
  return out;
}

}  // namespace tandem
