// tandem bench serve: an open-loop load on any OpenAI-style server, with the flags of `vllm bench
// serve`.
#pragma once

#include <string>
#include <vector>

namespace tandem {

int run_bench_serve(const std::vector<std::string>& args);

}  // namespace tandem
