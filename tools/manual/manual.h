// tandem man and tandem completion: what the program tells of its own commands and settings.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/flags/flags.h"

namespace tandem {

// Take the program's commands, and the arguments after their own name; an exit status.
int print_man_pages(const Subcommands& commands, const std::vector<std::string>& args);
int print_completion(const Subcommands& commands, const std::vector<std::string>& args);

}  // namespace tandem
