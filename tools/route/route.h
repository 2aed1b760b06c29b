// The commands `tandem route` and `tandem drain`.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// `args` are the arguments after the command's name; both return the exit status.
int run_route(const std::vector<std::string>& args);
int run_drain(const std::vector<std::string>& args);

}  // namespace tandem
