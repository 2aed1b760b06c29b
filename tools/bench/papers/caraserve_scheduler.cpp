// CaraServe's scheduler among others, on many simulated engines.
#include <fmt/format.h>

#include <array>

#include "tools/bench/papers/caraserve.h"
#include "tools/bench/papers/paper_machines.h"

namespace tandem::papers {
namespace {

// By the papers' names; `tandem` is ours.
struct Scheduler {
  std::string_view name, policy;
};
constexpr std::array kSchedulers = {
    Scheduler{"rank-aware", "rank_aware"}, Scheduler{"MostIdle", "most_idle"},
    Scheduler{"Random", "random"}, Scheduler{"FirstFit", "first_fit"},
    Scheduler{"tandem", "tandem"}};

struct Compared {
  std::array<PolicyResult, kSchedulers.size()> results;

  double faster(std::size_t other) const {
    return (1 - results[0].token_ms.mean / results[other].token_ms.mean) * 100;
  }
  bool ahead() const {
    for (std::size_t i = 1; i < 4; ++i) {
      if (results[0].slo_attainment < results[i].slo_attainment || faster(i) <= 0) return false;
    }
    return true;
  }
};

Result<Compared> compare(const PapersBench& bench, const SimulationOptions& options,
                         std::string_view kernel, Findings& found) {
  Compared compared;
  for (std::size_t i = 0; i < kSchedulers.size(); ++i) {
    TANDEM_ASSIGN(compared.results[i], simulate(bench, options, kSchedulers[i].policy));
    const auto& cdf = compared.results[i].token_ms.cdf;
    for (std::size_t at = 0; at < cdf.size(); at += 8) {
      if (cdf[at].second > 0.99) break;
      found.add(fmt::format("{}, {}", kSchedulers[i].name, kernel), cdf[at].first, cdf[at].second);
    }
  }
  return compared;
}

SimulationOptions cluster(const PapersBench& bench, LoraKernel kernel) {
  SimulationOptions options = one_engine(bench, sim_machine("a10", kernel).value());
  options.cold_start = SimColdStart::cached;
  options.engines = 60;
  use_azure(bench, options.workload);
  options.workload.requests_per_s = 340;
  options.workload.adapters = 40'000;
  return options;
}

constexpr const char* kBehind = "a scheduler of the paper is ahead in attainment or time per token";

}  // namespace

Result<Findings> caraserve_scheduler(const PapersBench& bench) {
  Findings found;
  bool ahead = true;
  std::string text;
  for (const auto& [name, kernel] :
       {std::pair("MBGMV", LoraKernel::mbgmv), std::pair("BGMV", LoraKernel::bgmv)}) {
    TANDEM_ASSIGN(const Compared one, compare(bench, cluster(bench, kernel), name, found));
    ahead = ahead && one.ahead();
    text += fmt::format(
        "{}{}: {:.1f} % attained (tandem {:.1f}), {:.0f} / {:.0f} / {:.0f} % less a token",
        text.empty() ? "" : "; ", name, one.results[0].slo_attainment * 100,
        one.results[4].slo_attainment * 100, one.faster(1), one.faster(2), one.faster(3));
  }
  found.here = text;
  found.judge(ahead, kBehind);
  return found;
}

Result<Findings> caraserve_toy(const PapersBench&) {
  constexpr double kSloMs = 36;
  Findings found;
  for (const auto& [name, kernel] :
       {std::pair("BGMV", LoraKernel::bgmv), std::pair("MBGMV", LoraKernel::mbgmv)}) {
    const StepCosts costs = sim_machine("a10", kernel).value().costs;
    const DecodeLoad first{.requests = 25, .rank_sum = 24 * 32 + 64, .rank_max = 64};
    const DecodeLoad second{.requests = 17, .rank_sum = 17 * 64, .rank_max = 64};
    found.add(name, 1, costs.decode_time_s(first) * 1e3);
    found.add(name, 2, costs.decode_time_s(second) * 1e3);
  }
  found.here = fmt::format(
      "BGMV {:.1f} and {:.1f} ms, MBGMV {:.1f} and {:.1f} ms (engines 1 and 2)",
      found.at("BGMV", 1), found.at("BGMV", 2), found.at("MBGMV", 1), found.at("MBGMV", 2));
  found.judge(found.at("BGMV", 1) > kSloMs && found.at("BGMV", 2) <= kSloMs &&
                  found.at("MBGMV", 1) <= kSloMs && found.at("MBGMV", 2) > kSloMs,
              "the two kernels choose alike");
  return found;
}

// 1,200 requests; the first do not find an empty cluster's engines by chance alone.
Result<Findings> caraserve_testbed(const PapersBench& bench) {
  Findings found;
  SimulationOptions options = cluster(bench, LoraKernel::bgmv);
  options.engines = 8;
  options.workload.requests_per_s = 60;
  options.workload.duration_s = 20;
  options.warmup_s = 0;
  TANDEM_ASSIGN(const Compared one, compare(bench, options, "BGMV", found));
  found.here = fmt::format(
      "{:.1f} % attained; MostIdle {:.1f}, Random {:.1f}, FirstFit {:.1f}, tandem {:.1f} %",
      one.results[0].slo_attainment * 100, one.results[1].slo_attainment * 100,
      one.results[2].slo_attainment * 100, one.results[3].slo_attainment * 100,
      one.results[4].slo_attainment * 100);
  found.judge(one.ahead(), kBehind);
  return found;
}

}  // namespace tandem::papers
