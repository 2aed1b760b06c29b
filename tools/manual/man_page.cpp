#include "tools/manual/man_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace tandem {
namespace {

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// Escapes text for roff: hyphens that can be copied, and no line that looks like a macro.
std::string roff(std::string_view text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    begins = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

// Writes the help's paragraphs, which empty lines separate, and keeps its line breaks.
std::string paragraphs(std::string_view text) {
  while (text.starts_with('\n')) text.remove_prefix(1);
  while (text.ends_with('\n')) text.remove_suffix(1);
  return replaced(roff(text), "\n\n", "\n.PP\n") + "\n";
}

std::string verbatim(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return fmt::format(".nf\n{}\n.fi\n", roff(text));
}

std::string option(const SettingsFacts& flag) {
  std::vector<std::string> names;
  for (const std::string& spelling : spellings_of(flag)) {
    names.push_back(fmt::format("\\fB{}\\fR", roff(spelling)));
  }
  std::string out = fmt::format(".TP\n{}", fmt::join(names, ", "));
  if (const std::string value = value_name_of(flag); !value.empty()) {
    out += fmt::format(" \\fI{}\\fR", roff(value));
  }
  out += fmt::format("{}\n{}\n", is_list(flag) ? " ..." : "", roff(flag.help));
  std::vector<std::string> facts;
  // A default path depends on the machine on which the page is generated, so it is left out.
  if (!flag.default_text.empty() && !flag.default_text.starts_with('/') && !flag.secret &&
      !(is_bool(flag) && !flag.has_key)) {
    facts.push_back("default " + flag.default_text);
  }
  if (flag.key == "config") facts.emplace_back("variable TANDEM_CONFIG");
  if (const std::string name = environment_of(flag); !name.empty()) {
    facts.push_back("variable " + name);
  }
  if (flag.has_key) facts.push_back("key " + flag.key);
  if (!facts.empty())
    out += fmt::format(".br\n({})\n", roff(fmt::format("{}", fmt::join(facts, ", "))));
  return out;
}

std::string options(const Command& command) {
  // Groups in the order of their first flag.
  std::vector<std::pair<std::string, std::string>> groups;
  for (const SettingsFacts& flag : command.flags) {
    auto group = std::ranges::find(groups, flag.group, &std::pair<std::string, std::string>::first);
    if (group == groups.end()) group = groups.insert(groups.end(), {flag.group, ""});
    group->second += option(flag);
  }
  std::string out;
  for (const auto& [name, text] : groups) out += fmt::format(".SS {}\n{}", roff(name), text);
  return out;
}

std::string subcommands(const Command& command) {
  std::string out;
  for (const Command& below : command.subcommands) {
    out += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n", roff(man_page_name(below)), roff(below.summary));
  }
  return out;
}

}  // namespace

std::string man_page_name(const Command& command) {
  return replaced(command.name, " ", "-");
}

std::string man_page(const Command& command, const std::string& version) {
  const std::string name = man_page_name(command);
  std::string title = name;
  std::ranges::transform(title, title.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  std::string out =
      fmt::format(".TH {} 1 \"\" \"tandem {}\" \"User Commands\"\n", roff(title), version);
  out += fmt::format(".SH NAME\n{} \\- {}\n", roff(name), roff(command.summary));
  out += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR {}\n", roff(command.name), roff(command.usage));
  out += ".SH DESCRIPTION\n" + paragraphs(command.description);
  if (!command.subcommands.empty()) out += ".SH COMMANDS\n" + subcommands(command);
  if (!command.flags.empty()) out += ".SH OPTIONS\n" + options(command);
  out += ".SH EXIT STATUS\n0; 1: what was asked for did not work; 2: it was asked for wrongly.\n";
  if (!command.examples.empty()) out += ".SH EXAMPLES\n" + verbatim(command.examples);
  if (const std::size_t end = name.rfind('-'); end != std::string::npos) {
    out += fmt::format(".SH SEE ALSO\n\\fB{}\\fR(1)\n", roff(name.substr(0, end)));
  }
  return out;
}

}  // namespace tandem
