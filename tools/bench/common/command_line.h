// The command line of a benchmark, for its report.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// "tandem bench engine --device host", to be repeated.
std::string bench_command_line(const std::string& name, const std::vector<std::string>& args);

}  // namespace tandem
