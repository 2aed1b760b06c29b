#include "tools/bench/serve/plan/load_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "scheduler/cluster/policies/policy.h"

namespace tandem {
namespace {

// Random streams are separate, so that one option does not change what the others draw.
constexpr std::uint64_t kArrivalDraws = 1;
constexpr std::uint64_t kAdapterDraws = 2;

Status plan_trace(const LoadPlanOptions& options, const Dataset& dataset, LoadPlan& plan) {
  const ArrivalOptions& arrivals = options.arrivals;
  if (std::isfinite(arrivals.requests_per_s) || !arrivals.ramp_up.empty() ||
      arrivals.burst_size > 1 || !options.rates.empty()) {
    return invalid(
        "a timed trace sets when requests come: leave rates, ramps and bursts out (--trace-speed "
        "plays it faster)");
  }
  for (std::size_t i = 0; i < dataset.due_s.size(); ++i) {
    PlannedRequest request;
    request.due_s = dataset.due_s[i];
    if (const std::string& name = dataset.adapters[i]; !name.empty() && plan.adapters.empty()) {
      // The adapter names in the trace are used as the server's.
      plan.adapters = dataset.adapters;
      std::sort(plan.adapters.begin(), plan.adapters.end());
      plan.adapters.erase(std::unique(plan.adapters.begin(), plan.adapters.end()),
                          plan.adapters.end());
      std::erase(plan.adapters, "");
      std::erase(plan.adapters, "base");
    }
    plan.requests.push_back(request);
  }
  return {};
}

Status plan_rates(const LoadPlanOptions& options, LoadPlan& plan) {
  if (std::isfinite(options.arrivals.requests_per_s) || !options.arrivals.ramp_up.empty()) {
    return invalid(
        "lora_rates: each adapter has a rate of its own; leave --request-rate and ramps "
        "out");
  }
  double total = 0;
  for (const auto& [name, rate] : options.rates) total += rate;
  for (const auto& [name, rate] : options.rates) {
    TANDEM_ASSIGN(const std::int32_t adapter, lora_number(name, options.adapters));
    const auto count = std::max<std::int64_t>(
        1, std::llround(static_cast<double>(options.num_prompts) * rate / total));
    ArrivalOptions arrivals = options.arrivals;
    arrivals.requests_per_s = rate;
    std::mt19937_64 random(
        mix_hash(mix_hash(options.seed, kArrivalDraws), static_cast<std::uint64_t>(adapter)));
    TANDEM_ASSIGN(const std::vector<double> times, arrival_times(arrivals, count, random));
    for (const double due_s : times) plan.requests.push_back({due_s, adapter, 0, 0});
  }
  std::stable_sort(plan.requests.begin(), plan.requests.end(),
                   [](const auto& a, const auto& b) { return a.due_s < b.due_s; });
  plan.requests.resize(
      std::min(plan.requests.size(), static_cast<std::size_t>(options.num_prompts)));
  return {};
}

Status plan_drawn(const LoadPlanOptions& options, std::int64_t count, LoadPlan& plan) {
  std::mt19937_64 random(mix_hash(options.seed, kArrivalDraws));
  TANDEM_ASSIGN(const std::vector<double> times, arrival_times(options.arrivals, count, random));
  for (std::int64_t i = 0; i < count; ++i) {
    PlannedRequest request;
    request.due_s = times[static_cast<std::size_t>(i)];
    request.burst = static_cast<std::int32_t>(i / options.arrivals.burst_size);
    plan.requests.push_back(request);
  }
  plan.all_at_once = times.back() == 0;
  return {};
}

}  // namespace

Result<LoadPlan> make_load_plan(const LoadPlanOptions& options, Dataset dataset) {
  LoadPlan plan;
  plan.adapters = options.adapters;
  plan.prompts = std::move(dataset.prompts);
  const auto count = std::min<std::int64_t>(options.num_prompts, std::ssize(plan.prompts));
  bool has_adapters = false;
  if (!dataset.due_s.empty()) {
    TANDEM_TRY(plan_trace(options, dataset, plan));
    has_adapters =
        std::ranges::any_of(dataset.adapters, [](const auto& name) { return !name.empty(); });
    for (std::size_t i = 0; has_adapters && i < plan.requests.size(); ++i) {
      const std::string& name = dataset.adapters[i];
      TANDEM_ASSIGN(plan.requests[i].adapter,
                    lora_number(name.empty() ? "base" : name, plan.adapters));
    }
  } else if (!options.rates.empty()) {
    TANDEM_TRY(plan_rates(options, plan));
    has_adapters = true;
  } else {
    TANDEM_TRY(plan_drawn(options, count, plan));
  }
  if (!has_adapters) {
    std::mt19937_64 random(mix_hash(options.seed, kAdapterDraws));
    TANDEM_ASSIGN(const auto chosen, choose_adapters(options.choice, plan.adapters,
                                                     std::ssize(plan.requests), random));
    for (std::size_t i = 0; i < chosen.size(); ++i) plan.requests[i].adapter = chosen[i];
  }
  for (std::size_t i = 0; i < plan.requests.size(); ++i) {
    plan.requests[i].prompt = static_cast<std::int32_t>(i % plan.prompts.size());
  }
  return plan;
}

}  // namespace tandem
