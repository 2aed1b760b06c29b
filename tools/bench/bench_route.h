// `tandem bench route`: decisions of the routing policies, and the router's cost of a request.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// `args` are the arguments after the command's name; returns the exit status.
int run_bench_route(const std::vector<std::string>& args);

}  // namespace tandem
