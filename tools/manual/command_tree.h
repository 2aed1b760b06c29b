// All commands of a program with their flags, as their --help gives them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/settings/settings.h"
#include "tools/cli/flags/flags.h"

namespace tandem {

struct Command {
  std::string name;     // "tandem bench serve"
  std::string summary;  // one line
  std::string usage;    // "[--base-url URL] [flags]"
  std::string description;
  std::string examples;              // indented by two; may be empty
  std::vector<SettingsFacts> flags;  // their targets are invalid: only the types may be used
  std::vector<Command> subcommands;  // in the order of their table
};

// Runs --help of each command, which has no other effect.
Command read_commands(const Subcommands& commands);

// Returns `root` and all commands below it; a command precedes its subcommands.
std::vector<const Command*> all_of(const Command& root);

// Returns every way to write a flag: "--pin", "--no-pin" and "-h".
std::vector<std::string> spellings_of(const SettingsFacts& flag);

// The kind of a flag's value, for completion in a shell.
enum class ValueKind { none, choices, folder, file, other };
ValueKind value_kind_of(const SettingsFacts& flag);

}  // namespace tandem
