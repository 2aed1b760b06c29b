// Steps of a model: Punica's figures 1 and 10, CaraServe's figures 4 and 9.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "scheduler/planning/costs/step_costs.h"
#include "tools/bench/measure/bench_executor.h"
#include "tools/bench/papers/on_device.h"
#include "tools/setup/engine_setup.h"

namespace tandem::papers {
namespace {

std::vector<std::int32_t> batches(const PapersBench& bench) {
  if (bench.quick) return {1, 8};
  if (!is_for_gpu(bench.engine)) return {1, 4, 16};
  return {1, 2, 4, 8, 16, 32};
}
std::int32_t most_rows(const PapersBench& bench) {
  return batches(bench).back();
}
std::vector<std::int32_t> contexts(const PapersBench& bench) {
  if (bench.quick) return {32, 128};
  if (!is_for_gpu(bench.engine)) return {64, 256};
  return {128, 2048};
}
std::int32_t prompt_tokens(const PapersBench& bench) {
  return bench.quick ? 16 : is_for_gpu(bench.engine) ? 128 : 64;
}
int rounds_of(const PapersBench& bench) {
  return bench.quick ? 2 : 7;
}

struct Steps {
  std::unique_ptr<Device> device;
  std::unique_ptr<ExecutorBench> bench;
};

Result<Steps> make_steps(const PapersBench& bench, std::int32_t context,
                         std::vector<AdapterSet> sets) {
  Steps steps;
  TANDEM_ASSIGN(const PapersModel model, papers_model(bench));
  TANDEM_ASSIGN(steps.device, model.make_device());
  ExecutorBenchOptions options;
  options.batch = most_rows(bench);
  options.context = context;
  options.prefill_tokens = 8 * prompt_tokens(bench);
  options.sets = std::move(sets);
  options.steps_per_sample = model.on_gpu ? 4 : 1;
  Device* const devices[] = {steps.device.get()};
  TANDEM_ASSIGN(steps.bench, ExecutorBench::create(devices, model.spec, model.dtype, options,
                                                   [](std::size_t, std::size_t) {}));
  return steps;
}

// The median of a few calls after a first one.
template <typename Time>
Result<double> median(int count, Time&& time) {
  std::vector<double> seconds;
  for (int i = -1; i < count; ++i) {
    TANDEM_ASSIGN(const double one, time());
    if (i >= 0) seconds.push_back(one);
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

AdapterSet set_of(std::int32_t rank, std::string_view popularity, std::int32_t rows) {
  AdapterSet set;
  set.name = fmt::format("rank {} {}", rank, popularity);
  set.rank = rank;
  set.modules = qkv_modules();
  set.of_sequence = adapters_by_popularity(popularity, rows);
  set.count = set.of_sequence.back() + 1;
  return set;
}

}  // namespace

Result<Findings> device_batching(const PapersBench& bench) {
  Findings found;
  found.verdict = Verdict::measured;
  std::string text;
  for (const std::int32_t context : contexts(bench)) {
    TANDEM_ASSIGN(const Steps steps, make_steps(bench, context, {}));
    const std::string name = fmt::format("decode, {} tokens", context);
    for (const std::int32_t batch : batches(bench)) {
      TANDEM_ASSIGN(const double seconds, median(rounds_of(bench), [&] {
                      return steps.bench->decode(batch, ExecutorBench::kNoAdapters);
                    }));
      found.add(name, batch, seconds * 1e3);
    }
    text += fmt::format("{}: {:.2f} to {:.2f} ms; ", name, found.at(name, 1),
                        found.at(name, most_rows(bench)));
    if (context != contexts(bench).front()) continue;
    // A batch of prompts is one step of as many tokens, attention aside.
    const std::int32_t prompt = prompt_tokens(bench);
    for (const std::int32_t batch : {1, 2, 4, 8}) {
      TANDEM_ASSIGN(const double seconds,
                    median(rounds_of(bench), [&] { return steps.bench->prefill(batch * prompt); }));
      found.add(fmt::format("prefill, {} tokens each", prompt), batch, seconds * 1e3);
    }
    const auto& prefill = found.series.back();
    text += fmt::format("{}: {:.2f} to {:.2f} ms from 1 to 8; ", prefill.name,
                        prefill.points.front().second, prefill.points.back().second);
    text += fmt::format("{}; ", steps.device->info().name);
  }
  found.here = fmt::format("batch 1 to {}: {}", most_rows(bench), text.substr(0, text.size() - 2));
  return found;
}

Result<Findings> device_layer(const PapersBench& bench) {
  Findings found;
  found.verdict = Verdict::measured;
  std::string text;
  for (const std::int32_t context : is_for_gpu(bench.engine) && !bench.quick
                                        ? std::vector<std::int32_t>{512, 2048}
                                        : std::vector<std::int32_t>{64}) {
    std::vector<AdapterSet> sets;
    sets.reserve(kPopularities.size());
    for (const std::string_view each : kPopularities) {
      sets.push_back(set_of(16, each, most_rows(bench)));
    }
    TANDEM_ASSIGN(const Steps steps, make_steps(bench, context, sets));
    const double layers = static_cast<double>(steps.bench->model().spec().layers.size());
    for (std::size_t i = 0; i < kPopularities.size(); ++i) {
      for (const std::int32_t batch : batches(bench)) {
        TANDEM_ASSIGN(const double seconds, median(rounds_of(bench), [&] {
                        return steps.bench->decode(batch, static_cast<int>(i));
                      }));
        found.add(fmt::format("{}, {} tokens", kPopularities[i], context), batch,
                  seconds / layers * 1e6);
      }
    }
    const auto us = [&](std::string_view popularity, std::int32_t batch) {
      return found.at(fmt::format("{}, {} tokens", popularity, context), batch);
    };
    const std::int32_t most = most_rows(bench);
    text += fmt::format(
        "{}{} tokens: {:+.0f} % from batch 1 to {} (distinct), distinct over identical {:.2f}",
        text.empty() ? "" : "; ", context, (us("distinct", most) / us("distinct", 1) - 1) * 100,
        most, us("distinct", most) / us("identical", most));
  }
  found.here = text;
  return found;
}

Result<Findings> device_cost_models(const PapersBench& bench) {
  Findings found;
  found.verdict = Verdict::measured;
  const std::vector<std::int32_t> ranks = {8, 16, 32, 64};
  std::vector<AdapterSet> sets;
  sets.reserve(ranks.size());
  for (const std::int32_t rank : ranks) sets.push_back(set_of(rank, "distinct", most_rows(bench)));
  TANDEM_ASSIGN(const Steps steps, make_steps(bench, contexts(bench).front(), sets));
  std::vector<StepSample> samples;
  for (const std::int32_t batch : batches(bench)) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      TANDEM_ASSIGN(const double seconds, median(rounds_of(bench), [&] {
                      return steps.bench->decode(batch, static_cast<int>(i));
                    }));
      found.add(fmt::format("rank {}", ranks[i]), batch, seconds * 1e3);
      StepSample sample;
      sample.decode = {
          .requests = batch, .rank_sum = std::int64_t{batch} * ranks[i], .rank_max = ranks[i]};
      sample.step_s = seconds;
      samples.push_back(sample);
    }
  }
  // All adapters of a batch have one rank here, so that both models see the same product.
  TANDEM_ASSIGN(const StepCostsFit fit, fit_step_costs(LoraKernel::mbgmv, samples));
  found.here = fmt::format(
      "R2 {:.3f}; batch {}: {:.2f} ms at rank 8, {:.2f} ms at rank 64; {:.2f} us a unit of rank; "
      "{}",
      fit.r2, most_rows(bench), found.at("rank 8", most_rows(bench)),
      found.at("rank 64", most_rows(bench)), fit.costs.rank_s * 1e6, steps.device->info().name);
  return found;
}

}  // namespace tandem::papers
