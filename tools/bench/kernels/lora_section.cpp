#include "tools/bench/kernels/lora_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tools/bench/kernels/lora_bench.h"
#include "tools/bench/kernels/lora_cases.h"

namespace tandem::kernels {
namespace {

constexpr double kLargeAdapters = 64e6;  // G7 counts cases with at least so many bytes of adapters

struct Measured {
  LoraCase peer;
  double us = 0;
  double p99_us = 0;
  double share = 0;  // of copy bandwidth
  double ratio() const { return us / peer.best_us; }
};

double geometric_mean(const std::vector<Measured>& all) {
  double sum = 0;
  for (const Measured& m : all) sum += std::log(m.ratio());
  return std::exp(sum / static_cast<double>(all.size()));
}

// Prints one line per kind of case: ratios and shares by number of tokens.
void print_groups(const std::vector<Measured>& all) {
  std::map<std::string, std::vector<Measured>> groups;
  for (const Measured& m : all) {
    const std::string popularity = m.peer.kind == "prefill" ? "prefill" : m.peer.popularity;
    groups[fmt::format("{}x{} r{} {}", m.peer.in, m.peer.out, m.peer.rank, popularity)].push_back(
        m);
  }
  fmt::print(
      "\nLoRA, y += x A B, bf16, cold L2: time over the best peer's; tokens: ours/peer us\n");
  for (const auto& [name, members] : groups) {
    double worst = 0;
    for (const Measured& m : members) worst = std::max(worst, m.ratio());
    fmt::print("  {:<26} mean {:.2f} worst {:.2f} ", name, geometric_mean(members), worst);
    for (const Measured& m : members) {
      fmt::print(" {}:{:.1f}/{:.1f}", m.peer.tokens, m.us, m.peer.best_us);
    }
    fmt::print("\n");
  }
}

void print_worst(std::vector<Measured> all) {
  std::sort(all.begin(), all.end(),
            [](const Measured& a, const Measured& b) { return a.ratio() > b.ratio(); });
  fmt::print("\nThe worst ten\n  {:<34}{:>9}{:>9}{:>9}{:>8}{:>8}  {}\n", "case", "us", "p99",
             "peer us", "ratio", "copy", "peer");
  for (std::size_t i = 0; i < std::min<std::size_t>(10, all.size()); ++i) {
    const Measured& m = all[i];
    fmt::print("  {:<34}{:>9.2f}{:>9.2f}{:>9.2f}{:>8.2f}{:>7.0f}%  {}\n", m.peer.name(), m.us,
               m.p99_us, m.peer.best_us, m.ratio(), m.share * 100, m.peer.best_peer);
  }
  fmt::print("\n");
}

// Compares batches of distinct adapters of ranks 8 to 128 with batches of their mean rank.
Result<double> mixed_ranks(LoraBench& bench, BenchReport& report, int replays) {
  constexpr std::int32_t kMix[] = {8, 128, 16, 40, 64, 32};  // mean 48
  double worst = 0;
  for (const std::size_t tokens : {std::size_t{48}, std::size_t{96}, std::size_t{192}}) {
    LoraStep step;
    step.in = 4096;
    step.out = 4096;
    step.counts.assign(tokens, 1);
    step.expected_us = static_cast<double>(tokens) * 0.3;
    for (std::size_t i = 0; i < tokens; ++i) step.ranks.push_back(kMix[i % std::size(kMix)]);
    std::sort(step.ranks.rbegin(), step.ranks.rend());  // high ranks first, as the engine does
    TANDEM_ASSIGN(const GpuTimes mixed, bench.run(step, launch_planned, replays));
    step.ranks.assign(tokens, 48);
    TANDEM_ASSIGN(const GpuTimes equal, bench.run(step, launch_planned, replays));
    report.fact(fmt::format("{} rows, ranks 8 to 128 / all 48", tokens),
                fmt::format("{:.1f} / {:.1f} us", mixed.median(), equal.median()));
    worst = std::max(worst, mixed.median() / equal.median());
  }
  return worst;
}

}  // namespace

Status run_lora_section(GpuBench& gpu, const LoraSection& section, BenchReport& report,
                        const std::function<void(std::size_t, std::size_t)>& progress) {
  TANDEM_ASSIGN(std::vector<LoraCase> cases, read_lora_cases(section.peers));
  std::erase_if(
      cases, [&](const LoraCase& c) { return c.name().find(section.only) == std::string::npos; });
  if (cases.empty()) return {};
  TANDEM_ASSIGN(const double bandwidth, gpu.copy_bandwidth());
  report.fact("copy bandwidth, read + written", fmt::format("{:.0f} GB/s", bandwidth / 1e9));
  TANDEM_ASSIGN(LoraBench bench, LoraBench::create(gpu));
  std::vector<Measured> all;
  double worst_error = 0;
  double least_share = HUGE_VAL;
  for (const LoraCase& c : cases) {
    Result<GpuTimes> times =
        bench.run(step_of(c), launch_planned, static_cast<int>(section.replays));
    if (!times) return times.status().with_context(c.name());
    worst_error = std::max(worst_error, bench.last_error());
    Measured m{c, times->median(), times->percentile(0.99), 0};
    m.share = c.bytes / (m.us * 1e-6) / bandwidth;
    if (c.popularity == "distinct" && c.adapter_bytes() >= kLargeAdapters) {
      least_share = std::min(least_share, m.share);
    }
    report.add(Samples{c.name(), "us", std::move(times->us)});
    all.push_back(std::move(m));
    progress(all.size(), cases.size());
  }
  print_groups(all);
  print_worst(all);
  report.fact("checked: largest error, of what is tolerated", fmt::format("{:.2f}", worst_error));
  double worst = 0;
  for (const Measured& m : all) worst = std::max(worst, m.ratio());
  report.add(
      {"G6", fmt::format("LoRA, {} cases: geometric mean of time over the best peer's", all.size()),
       geometric_mean(all), "", Must::be_at_most, 0.78});
  report.add({"G6", "the same, the worst case", worst, "", Must::be_at_most, 1.05});
  if (std::isfinite(least_share)) {
    report.add({"G7", "distinct, 64 MB of adapters or more: least share of copy bandwidth",
                least_share, "", Must::be_at_least, 0.85});
  }
  TANDEM_ASSIGN(const double mixed, mixed_ranks(bench, report, static_cast<int>(section.replays)));
  report.add({"G8", "mixed ranks 8 to 128 over the same bytes in equal ranks", mixed, "",
              Must::be_at_most, 1.05});
  return {};
}

}  // namespace tandem::kernels
