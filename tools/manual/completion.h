// What completes a program's commands, flags and their values in a shell.
#pragma once

#include <string>

#include "tools/manual/command_tree.h"

namespace tandem {

// Scripts for the program that `root` is. Values are completed where the table names them or says
// that they are files or folders.
std::string bash_completion(const Command& root);
std::string zsh_completion(const Command& root);
std::string fish_completion(const Command& root);

}  // namespace tandem
