// The subcommands. Each takes the arguments after its own name and returns the exit status.
#pragma once

#include <string>
#include <vector>

namespace tandem {

int run_serve(const std::vector<std::string>& args);
int run_generate(const std::vector<std::string>& args);
int run_pin(const std::vector<std::string>& args);
int run_profile(const std::vector<std::string>& args);
int run_worker(const std::vector<std::string>& args);
int run_bench(const std::vector<std::string>& args);

}  // namespace tandem
