// `tandem bench engine`: steps of a model.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Takes the arguments after its own name; returns the exit status.
int run_bench_engine(const std::vector<std::string>& args);

}  // namespace tandem
