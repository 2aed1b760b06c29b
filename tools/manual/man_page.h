// A command's manual page in roff, by the man(7) macros.
#pragma once

#include <string>

#include "tools/manual/command_tree.h"

namespace tandem {

std::string man_page_name(const Command& command);  // "tandem-bench-serve"
std::string man_page(const Command& command, const std::string& version);

}  // namespace tandem
