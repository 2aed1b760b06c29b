#include "tools/bench/kernels/gemm_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "tools/bench/kernels/gemm_bench.h"

namespace tandem::kernels {

Status run_gemm_section(GpuBench& gpu, const GemmSection& section, BenchReport& report) {
  std::vector<GemmCase> cases = gemm_cases();
  std::erase_if(
      cases, [&](const GemmCase& c) { return c.name().find(section.only) == std::string::npos; });
  if (cases.empty()) return {};
  TANDEM_ASSIGN(const double bandwidth, gpu.copy_bandwidth());
  TANDEM_ASSIGN(GemmBench bench, GemmBench::create(gpu));
  fmt::print(
      "\nGEMMs of decode steps, bf16, cold weights, back to back in a graph\n"
      "  {:<26}{:>9}{:>9}{:>9}{:>8}{:>7}  {}\n",
      "case", "ours us", "cuBLASLt", "p99", "TB/s", "copy", "taken");
  double worst_error = 0;
  std::map<std::pair<std::string, std::int32_t>, double> layers;
  for (const GemmCase& c : cases) {
    const Result<GemmTimes> measured = bench.run(c, static_cast<int>(section.replays));
    if (!measured) return measured.status().with_context(c.name());
    worst_error = std::max(worst_error, bench.last_error());
    const GpuTimes& taken = measured->chosen();
    const double us = taken.median();
    fmt::print("  {:<26}{:>9}{:>9.2f}{:>9.2f}{:>8.2f}{:>6.0f}%  {}\n", c.name(),
               measured->own ? fmt::format("{:.2f}", measured->own->median()) : "-",
               measured->library.median(), taken.percentile(0.99), c.bytes() / us * 1e-6,
               c.bytes() / (us * 1e-6) / bandwidth * 100,
               measured->own_chosen ? "ours" : "cuBLASLt");
    report.add(Samples{c.name(), "us", taken.us});
    layers[{c.model, c.rows}] += us;
  }
  fmt::print("\n");
  for (const auto& [layer, us] : layers) {
    report.fact(fmt::format("GEMMs of a layer, {} n{}", layer.first, layer.second),
                fmt::format("{:.1f} us", us));
  }
  report.fact("GEMMs checked: largest error, of what is tolerated",
              fmt::format("{:.2f}", worst_error));
  return {};
}

}  // namespace tandem::kernels
