// tandem bench: picks the benchmark.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "engine/base/settings.h"
#include "tools/bench_commands.h"
#include "tools/commands.h"
#include "tools/flags.h"

namespace tandem {
namespace {

struct Benchmark {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& args);
};

constexpr Benchmark kBenchmarks[] = {
    {"engine", "steps of a model: decode, prefill, adapters, memory", run_bench_engine},
    {"coldstart", "adapters that are not on the device, every way of serving them",
     run_bench_coldstart},
    {"kernels", "single CUDA kernels against other projects' and the memory", run_bench_kernels},
    {"tokenizer", "encoding speed on one core", run_bench_tokenizer},
    {"load", "reading a checkpoint against the memory's speed", run_bench_load},
};

std::string overview() {
  std::string out = "Usage: tandem bench NAME [flags]\n\nBenchmarks:\n";
  for (const Benchmark& benchmark : kBenchmarks) {
    out += fmt::format("  {:<12}{}\n", benchmark.name, benchmark.summary);
  }
  return out +
         "\nEach checks its results first, prints what it measured with its bars, and takes\n"
         "--json FILE, --html FILE and --check. `tandem bench NAME --help` lists the flags.\n";
}

}  // namespace

std::string bench_command_line(const std::string& name, const std::vector<std::string>& args) {
  return fmt::format("tandem bench {}{}{}", name, args.empty() ? "" : " ", fmt::join(args, " "));
}

int run_bench(const std::vector<std::string>& args) {
  if (args.empty()) {
    fmt::print(stderr, "{}", overview());
    return kExitUsage;
  }
  if (args.front() == "--help" || args.front() == "-h") {
    fmt::print("{}", overview());
    return kExitOk;
  }
  std::vector<std::string> names;
  for (const Benchmark& benchmark : kBenchmarks) {
    if (args.front() == benchmark.name) return benchmark.run({args.begin() + 1, args.end()});
    names.emplace_back(benchmark.name);
  }
  const std::string close = nearest(args.front(), names);
  fmt::print(stderr, "tandem bench: unknown benchmark '{}'; {}there are {}\n", args.front(),
             close.empty() ? "" : fmt::format("did you mean '{}'? ", close),
             fmt::join(names, ", "));
  return kExitUsage;
}

}  // namespace tandem
