// The command line of a benchmark, for its report.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Returns a command line that repeats the run: "tandem bench engine --device host".
std::string bench_command_line(const std::string& name, const std::vector<std::string>& args);

}  // namespace tandem
