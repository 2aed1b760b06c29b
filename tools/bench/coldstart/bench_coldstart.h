// `tandem bench coldstart`: adapters that are not on the device.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Takes the arguments after its own name; returns the exit status.
int run_bench_coldstart(const std::vector<std::string>& args);

}  // namespace tandem
