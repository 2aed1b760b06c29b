// tandem bench route.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// The command; returns the exit status.
int run_bench_route(const std::vector<std::string>& args);

}  // namespace tandem
