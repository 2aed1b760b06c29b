// `tandem bench` of a build without benchmarks (TANDEM_BENCH=OFF).
#include "tools/bench/bench.h"
#include "tools/cli/flags/flags.h"

namespace tandem {

int run_bench(const std::vector<std::string>& args) {
  // A benchmark's name gets the same answer as no name, the overview.
  const bool asks = !args.empty() && (args.front() == "--help" || args.front() == "-h");
  return run_subcommand(
      {"tandem bench",
       "benchmark",
       "Usage: tandem bench NAME [flags]\n\n",
       "This build has no benchmarks, as tools/quickstart leaves them out. To add them:\n"
       "  cmake -DTANDEM_BENCH=ON build/release && cmake --build build/release --target tandem\n",
       {}},
      asks ? args : std::vector<std::string>());
}

}  // namespace tandem
