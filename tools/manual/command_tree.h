// All commands of a program with their flags, as their own --help knows them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/settings/settings.h"
#include "tools/cli/flags/flags.h"

namespace tandem {

struct Command {
  std::string name;     // "tandem bench serve"
  std::string summary;  // a line
  std::string usage;    // "[--base-url URL] [flags]"
  std::string description;
  std::string examples;              // indented by two; may be empty
  std::vector<SettingsFacts> flags;  // targets lead nowhere: only their types may be looked at
  std::vector<Command> subcommands;  // in the order of their table
};

// Asks each of them for --help, which has no other effect.
Command read_commands(const Subcommands& commands);

// `root` and all below it, each before its own.
std::vector<const Command*> all_of(const Command& root);

// "--pin", "--no-pin" and "-h": every way to write a flag.
std::vector<std::string> spellings_of(const SettingsFacts& flag);

// What a flag's value is, as far as a shell can complete it.
enum class ValueKind { none, choices, folder, file, other };
ValueKind value_kind_of(const SettingsFacts& flag);

}  // namespace tandem
