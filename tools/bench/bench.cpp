// tandem bench: picks the benchmark.
#include "tools/bench/bench.h"

#include "tools/bench/bench_load.h"
#include "tools/bench/bench_route.h"
#include "tools/bench/bench_tokenizer.h"
#include "tools/bench/coldstart/bench_coldstart.h"
#include "tools/bench/engine/bench_engine.h"
#include "tools/bench/kernels/bench_kernels.h"
#include "tools/bench/serve/bench_serve.h"
#include "tools/cli/flags/flags.h"

namespace tandem {
namespace {

constexpr Subcommand kBenchmarks[] = {
    {"serve", "any OpenAI-style server under a load of requests", run_bench_serve},
    {"engine", "steps of a model: decode, prefill, adapters, memory", run_bench_engine},
    {"coldstart", "adapters that are not on the device, every way of serving them",
     run_bench_coldstart},
    {"kernels", "single CUDA kernels against other projects' and the memory", run_bench_kernels},
    {"tokenizer", "encoding speed on one core", run_bench_tokenizer},
    {"load", "reading a checkpoint against the memory's speed", run_bench_load},
    {"route", "a scheduler's decision over many engines", run_bench_route},
};

}  // namespace

int run_bench(const std::vector<std::string>& args) {
  return run_subcommand(
      {"tandem bench", "benchmark", "Usage: tandem bench NAME [flags]\n\nBenchmarks:\n",
       "\nserve measures a server that runs, as `vllm bench serve` does. Each of the others checks "
       "its\n"
       "results first, prints what it measured with its bars, and takes --json FILE, --html FILE "
       "and\n"
       "--check. `tandem bench NAME --help` lists the flags.\n",
       kBenchmarks},
      args);
}

}  // namespace tandem
