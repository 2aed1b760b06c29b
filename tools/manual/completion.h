// Scripts that complete a program's commands, flags and their values in a shell.
#pragma once

#include <string>

#include "tools/manual/command_tree.h"

namespace tandem {

// Scripts for the program `root`. A value is completed if the table lists its choices or says that
// it is a file or folder.
std::string bash_completion(const Command& root);
std::string zsh_completion(const Command& root);
std::string fish_completion(const Command& root);

}  // namespace tandem
