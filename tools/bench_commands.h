// The benchmarks, each a command of `tandem bench`.
#pragma once

#include <string>
#include <vector>

namespace tandem {

int run_bench_engine(const std::vector<std::string>& args);
int run_bench_coldstart(const std::vector<std::string>& args);
int run_bench_kernels(const std::vector<std::string>& args);
int run_bench_tokenizer(const std::vector<std::string>& args);
int run_bench_load(const std::vector<std::string>& args);

// "tandem bench engine --device host", to be repeated.
std::string bench_command_line(const std::string& name, const std::vector<std::string>& args);

}  // namespace tandem
