// `tandem bench tokenizer`: encoding speed on one core.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Takes the arguments after its own name; returns the exit status.
int run_bench_tokenizer(const std::vector<std::string>& args);

}  // namespace tandem
