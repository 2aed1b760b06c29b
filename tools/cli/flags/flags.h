// Picks a command by its name, reads its arguments into its SettingsTable, and prints help. CLI11
// stays behind this.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings/settings.h"

namespace tandem {

// Exit statuses of every command.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;  // what was asked for did not work
inline constexpr int kExitUsage = 2;    // it was asked for wrongly, also by a file

// A row of a table of commands. `run` takes the arguments after the name; an exit status.
struct Subcommand {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& args);
};

struct Subcommands {
  std::string_view program;  // what they belong to: "tandem bench"
  std::string_view kind;     // "benchmark": messages speak of an "unknown benchmark"
  std::string_view head;     // of the overview, before the table
  std::string_view foot;     // after it
  std::span<const Subcommand> rows;
};

// Runs the one that the first argument names. --help prints the overview, and `help NAME` what
// `NAME --help` does; no name, or an unknown one, is a mistake in usage.
int run_subcommand(const Subcommands& commands, const std::vector<std::string>& args);

struct CommandInfo {
  std::string name;      // "serve": messages begin with "tandem serve: "
  std::string usage;     // "--model DIR [options]"
  std::string summary;   // a paragraph
  std::string examples;  // printed last, may be empty
  // Another program has judged the config file's keys: those that are not ours are passed over.
  bool keys_are_judged = false;
};

// While one lives, whatever is asked for --help hands itself over to it instead of printing: so
// man pages and completion go through all commands. One at a time, on the thread that runs them.
class HelpReader {
 public:
  HelpReader();
  virtual ~HelpReader();
  HelpReader(const HelpReader&) = delete;
  HelpReader& operator=(const HelpReader&) = delete;

  virtual void read(const Subcommands& commands) = 0;
  // The table's members are gone after the call; what its facts say of them is not.
  virtual void read(const CommandInfo& command, const SettingsTable& table) = 0;
};

// What a command line has beside settings. Null: not wanted.
struct GivenBeside {
  std::vector<std::string>* words = nullptr;  // before, between and after flags; null: none may be
  std::size_t least_words = 0, most_words = 1;
  const char* word = "";  // what a word names: "which adapter?" is asked where one is missing
  std::string* config = nullptr;  // the path that --config has
};

// Reads the config file (--config, TANDEM_CONFIG), the environment and the flags into the table's
// members, in this order, and validates them. Keys of the file that belong to other commands of the
// outermost run_subcommand() under way are passed over. `args` starts after the command's name.
// Returns the exit status if the command is to end here: --help and --print-config print to
// standard output; a mistake is reported on standard error with its remedy.
std::optional<int> read_settings(const CommandInfo& command, SettingsTable table,
                                 const std::vector<std::string>& args,
                                 const GivenBeside& beside = {});

// Whether its --no-NAME is worth telling: a bool that a file may set, or that is on by default.
bool has_no_form(const SettingsFacts& facts);

// Writes a file whose path the user gave by `setting`, which a failure names with the path. May be
// a pipe or a device, such as /dev/stdout.
Status write_output(const std::string& setting, const std::string& path, std::string_view text);

// Prints "tandem NAME: message" to standard error and returns the exit status: kExitUsage for
// invalid_argument, of which trying again makes nothing better, else kExitFailure.
int report_failure(const CommandInfo& command, const Status& status);

}  // namespace tandem
