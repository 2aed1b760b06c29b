// `tandem bench papers`: the experiments of the four papers.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// `args` are the arguments after the command's name; returns the exit status.
int run_bench_papers(const std::vector<std::string>& args);

}  // namespace tandem
