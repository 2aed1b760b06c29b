// tandem man and tandem completion: documentation made from the program's commands and settings.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/flags/flags.h"

namespace tandem {

// Both take the program's commands and their own arguments, and return an exit status.
int print_man_pages(const Subcommands& commands, const std::vector<std::string>& args);
int print_completion(const Subcommands& commands, const std::vector<std::string>& args);

}  // namespace tandem
