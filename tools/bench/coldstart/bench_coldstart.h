// `tandem bench coldstart`: measures cold starts of adapters.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// `args` are the arguments after the command's name; returns the exit status.
int run_bench_coldstart(const std::vector<std::string>& args);

}  // namespace tandem
