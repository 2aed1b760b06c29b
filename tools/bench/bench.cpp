// tandem bench: picks the benchmark.
#include "tools/bench/bench.h"

#include "tools/bench/bench_load.h"
#include "tools/bench/bench_route.h"
#include "tools/bench/bench_tokenizer.h"
#include "tools/bench/coldstart/bench_coldstart.h"
#include "tools/bench/engine/bench_engine.h"
#include "tools/bench/kernels/bench_kernels.h"
#include "tools/bench/papers/bench_papers.h"
#include "tools/bench/serve/bench_serve.h"
#include "tools/cli/flags/flags.h"

namespace tandem {
namespace {

constexpr Subcommand kBenchmarks[] = {
    {"serve", "an OpenAI-compatible server under load", run_bench_serve},
    {"engine", "a model's steps: decode, prefill, adapters, memory", run_bench_engine},
    {"coldstart", "cold starts: every adapter mode with adapters that are not on the device",
     run_bench_coldstart},
    {"kernels", "single CUDA kernels, compared with other projects and the memory bandwidth",
     run_bench_kernels},
    {"tokenizer", "encoding speed on one core", run_bench_tokenizer},
    {"load", "loading of a checkpoint, compared with the memory bandwidth", run_bench_load},
    {"route", "the router: one decision among many engines, and the cost of a relayed stream",
     run_bench_route},
    {"papers", "the experiments of the four papers, figure by figure", run_bench_papers},
};

}  // namespace

int run_bench(const std::vector<std::string>& args) {
  return run_subcommand(
      {"tandem bench", "benchmark", "Usage: tandem bench NAME [flags]\n\nBenchmarks:\n",
       "\nserve measures a running server, as `vllm bench serve` does. Each of the others first "
       "checks\n"
       "its results, prints its figures beside the bars that they must meet, and takes --json "
       "FILE,\n"
       "--html FILE and --check. `tandem bench NAME --help` lists the flags.\n",
       kBenchmarks},
      args);
}

}  // namespace tandem
