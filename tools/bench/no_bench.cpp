// `tandem bench` of a build without it (TANDEM_BENCH=OFF).
#include <fmt/format.h>

#include <cstdio>

#include "tools/bench/bench.h"
#include "tools/cli/flags/flags.h"

namespace tandem {

int run_bench(const std::vector<std::string>& args) {
  const bool asks = !args.empty() && (args.front() == "--help" || args.front() == "-h");
  fmt::print(
      asks ? stdout : stderr,
      "Usage: tandem bench NAME [flags]\n\n"
      "This build has no benchmarks, as tools/quickstart leaves them out. To add them:\n"
      "  cmake -DTANDEM_BENCH=ON build/release && cmake --build build/release --target tandem\n");
  return asks ? kExitOk : kExitUsage;
}

}  // namespace tandem
