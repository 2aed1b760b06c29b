#include "tools/manual/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tandem {
namespace {

// Returns the help up to its first semicolon or full stop.
std::string brief(const std::string& help) {
  return help.substr(0, std::min(help.find("; "), help.find(". ")));
}

// Puts `text` in single quotes; `close` replaces a quote within it, which differs by shell.
std::string quoted(std::string_view text, std::string_view close) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += close;
    } else {
      out += c;
    }
  }
  return out + "'";
}
std::string sh(std::string_view text) {
  return quoted(text, "'\\''");
}
std::string fish(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') escaped += '\\';
    escaped += c;
  }
  return quoted(escaped, "\\'");
}

std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::vector<std::string> words_of(const Command& command) {
  std::vector<std::string> words;
  for (const Command& below : command.subcommands) {
    words.push_back(below.name.substr(command.name.size() + 1));
  }
  if (!words.empty()) words.emplace_back("--help");
  for (const SettingsFacts& flag : command.flags) {
    for (std::string& spelling : spellings_of(flag)) words.push_back(std::move(spelling));
  }
  return words;
}

// The names of all commands but the root, quoted and joined: the words that can lead to a
// subcommand.
std::string names_below(const Command& root, const char* separator,
                        std::string (*quote)(std::string_view)) {
  std::vector<std::string> names;
  for (const Command* command : all_of(root)) {
    if (command != &root) names.push_back(quote(command->name));
  }
  return fmt::format("{}", fmt::join(names, separator));
}

std::string bash_value(const SettingsFacts& flag) {
  switch (value_kind_of(flag)) {
    case ValueKind::choices:
      return fmt::format("mapfile -t COMPREPLY < <(compgen -W {} -- \"$word\")",
                         sh(fmt::format("{}", fmt::join(flag.choices, " "))));
    case ValueKind::folder:
      return "_tandem_paths -d \"$word\"";
    case ValueKind::file:
      return "_tandem_paths -f \"$word\"";
    case ValueKind::none:
    case ValueKind::other:
      break;
  }
  return ":";
}

std::string zsh_action(const SettingsFacts& flag) {
  switch (value_kind_of(flag)) {
    case ValueKind::choices:
      return fmt::format("({})", fmt::join(flag.choices, " "));
    case ValueKind::folder:
      return "_files -/";
    case ValueKind::file:
      return "_files";
    case ValueKind::none:
    case ValueKind::other:
      break;
  }
  return " ";
}

std::string fish_value(const SettingsFacts& flag) {
  switch (value_kind_of(flag)) {
    case ValueKind::choices:
      return " -x -a " + fish(fmt::format("{}", fmt::join(flag.choices, " ")));
    case ValueKind::folder:
      return " -x -a '(__fish_complete_directories)'";
    case ValueKind::file:
      return " -r -F";
    case ValueKind::none:
      return "";
    case ValueKind::other:
      break;
  }
  return " -x";
}

}  // namespace

std::string bash_completion(const Command& root) {
  std::string values;
  std::string words;
  for (const Command* command : all_of(root)) {
    for (const SettingsFacts& flag : command->flags) {
      if (is_bool(flag)) continue;
      std::vector<std::string> patterns;
      for (const std::string& spelling : spellings_of(flag)) {
        patterns.push_back(sh(fmt::format("{} {}", command->name, spelling)));
      }
      values +=
          fmt::format("    {}) {}; return ;;\n", fmt::join(patterns, " | "), bash_value(flag));
    }
    words += fmt::format("    {}) words={} ;;\n", sh(command->name),
                         sh(fmt::format("{}", fmt::join(words_of(*command), " "))));
  }
  return fmt::format(R"(# Completion of {0} in bash, written by `{0} completion bash`.
_{0}_paths() {{ # -d|-f WORD
  mapfile -t COMPREPLY < <(compgen "$1" -- "$2")
  compopt -o filenames 2> /dev/null
}}
_{0}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command={0} words="" next
  COMPREPLY=()
  # bash takes --flag=value for three words
  if [[ $word == = ]]; then word=""; elif [[ $before == = ]]; then before=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
  for next in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$command $next" in
      {1}) command="$command $next" ;;
      *) break ;;
    esac
  done
  case "$command $before" in
{2}  esac
  case "$command" in
{3}  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  [[ $word == -* ]] || ((${{#COMPREPLY[@]}})) || _{0}_paths -f "$word"
}}
complete -F _{0} {0}
)",
                     root.name, names_below(root, " | ", sh), values, words);
}

std::string zsh_completion(const Command& root) {
  std::string cases;
  for (const Command* command : all_of(root)) {
    cases += fmt::format("    ({})\n", sh(command->name));
    if (!command->subcommands.empty()) {
      std::string rows;
      for (const Command& below : command->subcommands) {
        rows += fmt::format("        {}\n",
                            sh(fmt::format("{}:{}", below.name.substr(command->name.size() + 1),
                                           zsh_text(below.summary))));
      }
      cases +=
          fmt::format("      commands=(\n{}      )\n      _describe command commands ;;\n", rows);
      continue;
    }
    std::string specs;
    for (const SettingsFacts& flag : command->flags) {
      for (const std::string& spelling : spellings_of(flag)) {
        std::string spec =
            fmt::format("{}{}[{}]", is_list(flag) ? "*" : "", spelling, zsh_text(brief(flag.help)));
        if (!is_bool(flag))
          spec += fmt::format(":{}:{}", zsh_text(value_name_of(flag)), zsh_action(flag));
        specs += fmt::format(" \\\n        {}", sh(spec));
      }
    }
    cases += fmt::format("      _arguments{} \\\n        '*: :_files' ;;\n", specs);
  }
  return fmt::format(R"(#compdef {0}
# Completion of {0} in zsh, written by `{0} completion zsh`.
_{0}() {{
  local command={0} level
  local -a commands
  for ((level = 2; level < CURRENT; ++level)); do
    case "$command ${{words[level]}}" in
      ({1}) command="$command ${{words[level]}}" ;;
      (*) break ;;
    esac
  done
  # What is left begins with the command's last word, as if that were a program.
  shift $((level - 2)) words
  ((CURRENT -= level - 2))
  case "$command" in
{2}  esac
}}
if [[ $funcstack[1] == _{0} ]]; then _{0} "$@"; else compdef _{0} {0}; fi
)",
                     root.name, names_below(root, "|", sh), cases);
}

std::string fish_completion(const Command& root) {
  std::string rows;
  for (const Command* command : all_of(root)) {
    const std::string at = fmt::format("complete -c {} -n {}", root.name,
                                       fish(fmt::format("__{}_at {}", root.name, command->name)));
    for (const Command& below : command->subcommands) {
      rows += fmt::format("{} -f -a {} -d {}\n", at, below.name.substr(command->name.size() + 1),
                          fish(below.summary));
    }
    for (const SettingsFacts& flag : command->flags) {
      for (const std::string& spelling : spellings_of(flag)) {
        const bool is_long = spelling.starts_with("--");
        rows +=
            fmt::format("{} {} {}{} -d {}\n", at, is_long ? "-l" : "-s",
                        spelling.substr(is_long ? 2 : 1), fish_value(flag), fish(brief(flag.help)));
      }
    }
  }
  return fmt::format(R"(# Completion of {0} in fish, written by `{0} completion fish`.
function __{0}_at
    set -l at {0}
    for word in (commandline -opc)[2..]
        switch "$at $word"
            case {1}
                set at "$at $word"
            case '*'
                break
        end
    end
    test "$at" = "$argv"
end
{2})",
                     root.name, names_below(root, " ", fish), rows);
}

}  // namespace tandem
