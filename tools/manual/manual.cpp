#include "tools/manual/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/status.h"
#include "tools/cli/version.h"
#include "tools/manual/command_tree.h"
#include "tools/manual/completion.h"
#include "tools/manual/man_page.h"

namespace tandem {
namespace {

const CommandInfo kManInfo{
    "man", "[COMMAND ...] [--write DIR]",
    "Prints the manual page of a command in roff, or of tandem itself; or writes all pages.",
    "  tandem man serve | man -l -\n"
    "  tandem man --write /usr/local/share/man/man1"};

const CommandInfo kCompletionInfo{
    "completion", "bash|zsh|fish",
    "Prints a script with which that shell completes commands, flags and their values.",
    "  source <(tandem completion bash)\n"
    "  tandem completion zsh > ~/.zfunc/_tandem\n"
    "  tandem completion fish > ~/.config/fish/completions/tandem.fish"};

Status write_pages(const std::vector<const Command*>& commands, const std::string& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) return errno_status("write: " + folder, failure.value());
  for (const Command* command : commands) {
    const std::string path = fmt::format("{}/{}.1", folder, man_page_name(*command));
    TANDEM_TRY(write_output("write", path, man_page(*command, version_number())));
  }
  return {};
}

}  // namespace

int print_man_pages(const Subcommands& commands, const std::vector<std::string>& args) {
  std::vector<std::string> words;
  std::string folder;
  SettingsTable table;
  table.group("Pages");
  table.add(folder, "write", "write the pages of all commands into this folder")
      .meta("DIR")
      .flag_only();
  const GivenBeside beside{.words = &words, .most_words = 3};  // a command's name has up to three
  if (const auto status = read_settings(kManInfo, table, args, beside)) return *status;
  const Command root = read_commands(commands);
  const std::vector<const Command*> all = all_of(root);
  if (!folder.empty()) {
    const Status status = write_pages(all, folder);
    return status ? kExitOk : report_failure(kManInfo, status);
  }
  std::string name = root.name;
  for (const std::string& word : words) name += " " + word;
  const auto named = std::ranges::find(all, name, &Command::name);
  if (named == all.end()) {
    fmt::print(stderr, "tandem man: there is no command '{}'; `tandem --help` lists them\n", name);
    return kExitUsage;
  }
  fmt::print("{}", man_page(**named, version_number()));
  return kExitOk;
}

int print_completion(const Subcommands& commands, const std::vector<std::string>& args) {
  std::vector<std::string> shells;
  if (const auto status = read_settings(kCompletionInfo, {}, args, {.words = &shells}))
    return *status;
  const std::string shell = shells.empty() ? "" : shells.front();
  if (shell != "bash" && shell != "zsh" && shell != "fish") {
    fmt::print(stderr, "tandem completion: which shell? Usage: tandem completion bash|zsh|fish\n");
    return kExitUsage;
  }
  const Command root = read_commands(commands);
  fmt::print("{}", shell == "bash"  ? bash_completion(root)
                   : shell == "zsh" ? zsh_completion(root)
                                    : fish_completion(root));
  return kExitOk;
}

}  // namespace tandem
