// Picks a command by its name, reads its arguments into its SettingsTable, and prints help. Only
// this module uses CLI11.
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
inline constexpr int kExitFailure = 1;  // valid arguments, but the command failed
inline constexpr int kExitUsage = 2;    // wrong arguments, or a wrong setting in a file

// A command in a table. `run` takes the arguments after the name and returns an exit status.
struct Subcommand {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& args);
};

struct Subcommands {
  std::string_view program;  // the words before the subcommand: "tandem bench"
  std::string_view kind;     // "benchmark": messages speak of an "unknown benchmark"
  std::string_view head;     // text before the table of the overview
  std::string_view foot;     // text after the table
  std::span<const Subcommand> rows;
};

// Runs the subcommand that the first argument names. --help prints the overview, `help NAME` prints
// what `NAME --help` does; a missing or unknown name is a usage error.
int run_subcommand(const Subcommands& commands, const std::vector<std::string>& args);

struct CommandInfo {
  std::string name;      // "serve": messages begin with "tandem serve: "
  std::string usage;     // "--model DIR [options]"
  std::string summary;   // a paragraph
  std::string examples;  // printed last, may be empty
  // Another program has checked the config file's keys already: unknown keys are ignored.
  bool keys_are_judged = false;
};

// While one exists, commands that are asked for --help pass their help to it instead of printing
// it. Man pages and completion read all commands this way. One at a time, on one thread.
class HelpReader {
 public:
  HelpReader();
  virtual ~HelpReader();
  HelpReader(const HelpReader&) = delete;
  HelpReader& operator=(const HelpReader&) = delete;

  virtual void read(const Subcommands& commands) = 0;
  // The targets of `table` are gone after the call; the facts about them may be kept.
  virtual void read(const CommandInfo& command, const SettingsTable& table) = 0;
};

// Arguments that are no settings. Null: not wanted.
struct GivenBeside {
  std::vector<std::string>* words = nullptr;  // anywhere among the flags; null: none is allowed
  std::size_t least_words = 0, most_words = 1;
  const char* word = "";          // the meaning of a word, for the error message if it is missing
  std::string* config = nullptr;  // receives the path given by --config
};

// Reads the config file (--config, TANDEM_CONFIG), the environment and the flags into the table's
// members, in this order, and validates them. Keys of the file that belong to other commands of the
// outermost running run_subcommand() are ignored. `args` starts after the command's name. Returns
// the exit status if the command has to end here: --help and --print-config print to standard
// output; an error is reported on standard error with a remedy.
std::optional<int> read_settings(const CommandInfo& command, SettingsTable table,
                                 const std::vector<std::string>& args,
                                 const GivenBeside& beside = {});

// True if help shows the form --no-NAME: for a bool that a file may set or that is on by default.
bool has_no_form(const SettingsFacts& facts);

// Writes a file whose path the user gave by `setting`; an error names both. The path may be a pipe
// or a device, such as /dev/stdout.
Status write_output(const std::string& setting, const std::string& path, std::string_view text);

// Prints "tandem NAME: message" to standard error and returns the exit status: kExitUsage for
// invalid_argument, because a retry cannot help, else kExitFailure.
int report_failure(const CommandInfo& command, const Status& status);

}  // namespace tandem
