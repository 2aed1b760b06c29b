// `tandem pin`: picks the subcommand.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Takes the arguments after its own name; returns the exit status.
int run_pin(const std::vector<std::string>& args);

}  // namespace tandem
