// S-LoRA's ablations: merged adapters, early abort, clusters.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/bench/papers/paper_machines.h"
#include "tools/bench/papers/s_lora.h"

namespace tandem::papers {
namespace {

// The time to add A B to the weights of q, k and v: they are read and written once.
double merge_s(const PaperModel& model, const PaperCard& card) {
  return 2.0 * model.layers * 3 * model.hidden * model.hidden * 2 / card.bytes_per_s;
}

struct OrderChoice {
  std::string_view name;
  double deadline_s;
  bool newest_first;
};
constexpr std::array kOrders = {OrderChoice{"early abort", 6, false},
                                OrderChoice{"first come", 0, false},
                                OrderChoice{"last come", 0, true}};

// Throughput and attainment with `clusters` adapters in a batch.
Result<Findings> clusters(const PapersBench& bench, const char* what,
                          const std::vector<double>& values, double WorkloadOptions::*member) {
  Findings found;
  const std::vector<double> counts =
      bench.quick ? std::vector<double>{2, 32} : std::vector<double>{1, 2, 4, 8, 16, 32};
  double least = HUGE_VAL;
  double most = 0;
  for (const double value : values) {
    double best = 0;
    double worst = HUGE_VAL;
    for (const double count : counts) {
      SimulationOptions options =
          s_lora_engine(bench, paper_machine(LoraKernel::mbgmv, kLlama7b, kA100_40), 2);
      options.workload.adapters = 32;
      options.workload.arrivals = "gamma";
      options.workload.cv = 1;
      options.workload.*member = value;
      options.line.adapter_clusters = static_cast<std::int32_t>(count);
      TANDEM_ASSIGN(const PolicyResult result, simulate(bench, options));
      found.add(fmt::format("{} {}", what, value), count, served_per_s(result, options));
      best = std::max(best, result.tokens_per_s);
      worst = std::min(worst, result.tokens_per_s);
    }
    least = std::min(least, best / worst);
    most = std::max(most, best / worst);
  }
  found.here = fmt::format(
      "best over worst number of clusters: {:.3f} to {:.3f} times the throughput", least, most);
  found.judge(most <= 1.1, "the number of clusters changes the throughput by more than a tenth");
  return found;
}

}  // namespace

Result<Findings> s_lora_merging(const PapersBench& bench) {
  Findings found;
  const std::vector<double> counts =
      bench.quick ? std::vector<double>{1, 5} : std::vector<double>{1, 2, 5, 10, 25};
  constexpr std::int32_t kRank = 32;
  for (const double alpha : bench.quick ? std::vector<double>{1} : std::vector<double>{0.3, 1}) {
    for (const double adapters : counts) {
      for (const bool merged : {false, true}) {
        SimulationOptions options =
            s_lora_engine(bench, paper_machine(LoraKernel::mbgmv, kLlama7b, kA10g), 2);
        options.workload.adapters = static_cast<std::int64_t>(adapters);
        options.workload.zipf_exponent = alpha;
        options.workload.ranks = {kRank};
        if (merged) {
          // One adapter is in the weights at a time; the next one waits until no request uses it.
          SimMachine& machine = options.machine;
          machine.costs.rank_s = machine.costs.prefill_rank_token_s = 0;
          machine.adapter_bytes = machine.bytes_per_rank * kRank;
          machine.cold.load_s = merge_s(kLlama7b, kA10g);
          options.cold_start = SimColdStart::on_demand;
        }
        TANDEM_ASSIGN(const PolicyResult result, simulate(bench, options));
        found.add(fmt::format("{}, alpha {}", merged ? "merged" : "on the fly", alpha), adapters,
                  served_per_s(result, options));
      }
    }
  }
  const auto ratio = [&](double adapters) {
    return found.at("merged, alpha 1", adapters) / found.at("on the fly, alpha 1", adapters);
  };
  found.here =
      fmt::format("merged over on the fly, requests/s: {:.2f} with 1 adapter, {:.2f} with 5",
                  ratio(1), ratio(5));
  found.judge(ratio(1) >= 1 && ratio(5) < 1,
              "merging is behind with one adapter or ahead with five");
  return found;
}

Result<Findings> s_lora_early_abort(const PapersBench& bench) {
  Findings found;
  const std::vector<double> spreads =
      bench.quick ? std::vector<double>{1, 8} : std::vector<double>{1, 2, 4, 6, 8};
  bool ahead = true;
  std::array<double, kOrders.size()> attained{};
  for (const double cv : spreads) {
    std::array<double, kOrders.size()> satisfied{};
    for (std::size_t i = 0; i < kOrders.size(); ++i) {
      SimulationOptions options =
          s_lora_engine(bench, paper_machine(LoraKernel::mbgmv, kLlama7b, kA10g), 2);
      options.workload.ranks = {8};
      options.workload.arrivals = "gamma";
      options.workload.cv = cv;
      options.workload.duration_s = bench.quick ? 200 : 600;
      options.line.ttft_deadline_s = kOrders[i].deadline_s;
      options.line.newest_first = kOrders[i].newest_first;
      TANDEM_ASSIGN(const PolicyResult result, simulate(bench, options));
      found.add(fmt::format("{}: attainment", kOrders[i].name), cv, result.ttft_attainment * 100);
      found.add(fmt::format("{}: satisfaction", kOrders[i].name), cv, result.satisfaction * 100);
      attained[i] += result.ttft_attainment * 100 / static_cast<double>(spreads.size());
      satisfied[i] = result.satisfaction;
    }
    ahead = ahead && satisfied[0] > satisfied[1];
  }
  found.here = fmt::format(
      "first tokens within 6 s, mean over cv: early abort {:.0f} %, first come {:.0f} %, last come "
      "{:.0f} %",
      attained[0], attained[1], attained[2]);
  found.judge(ahead && attained[0] > attained[1] && attained[0] > attained[2],
              "another order attains more");
  return found;
}

Result<Findings> s_lora_clusters_alpha(const PapersBench& bench) {
  return clusters(bench, "alpha",
                  bench.quick ? std::vector<double>{1} : std::vector<double>{0.1, 0.3, 0.6, 1},
                  &WorkloadOptions::zipf_exponent);
}

Result<Findings> s_lora_clusters_cv(const PapersBench& bench) {
  return clusters(bench, "cv",
                  bench.quick ? std::vector<double>{4} : std::vector<double>{1, 2, 4, 6, 8},
                  &WorkloadOptions::cv);
}

}  // namespace tandem::papers
