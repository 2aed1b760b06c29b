// `tandem bench tokenizer`: encoding speed on one core.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// `args` are the arguments after the command's name; returns the exit status.
int run_bench_tokenizer(const std::vector<std::string>& args);

}  // namespace tandem
