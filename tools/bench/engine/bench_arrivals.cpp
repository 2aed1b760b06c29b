#include "tools/bench/engine/bench_arrivals.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/log/log.h"
#include "tools/bench/measure/bench_serving.h"

namespace tandem {
namespace {

constexpr double kRate = 9;
constexpr std::int32_t kPrompt = 19;
constexpr std::int32_t kOutput = 58;    // the mean of Alpaca's answers
constexpr std::int32_t kRequests = 40;  // per round
constexpr std::int32_t kAdapters = 8;
constexpr std::int32_t kArrivalRank = 64;
constexpr double kPoolGb = 12;  // there are two engines

struct Arm {
  const char* name;
  std::unique_ptr<ServingBench> bench;
  Samples ttft;
  Samples tpot;
  double gap_s = 0;
  double step_s = 0;
  std::uint64_t in_time = 0;
  std::uint64_t late = 0;
  std::uint64_t steps = 0;
  double margin_s = 0;  // at the end
};

Result<Arm> start(EngineSettings settings, bool just_in_time) {
  const char* name = just_in_time ? "just in time" : "at once";
  log::info("starting an engine that enqueues steps {}", name);
  settings.options.just_in_time = just_in_time;
  Arm arm{name,
          nullptr,
          {fmt::format("first token of {} tokens, steps enqueued {}", kPrompt, name), "ms", {}},
          {fmt::format("time per token, steps enqueued {}", name), "ms", {}}};
  TANDEM_ASSIGN(arm.bench, ServingBench::start(settings));
  return arm;
}

Status run_round(Arm& arm, const std::vector<std::string>& adapters, std::uint64_t seed,
                 bool counts) {
  const ServingBench::Arrivals arrivals{adapters, kRequests, kRate, kPrompt, kOutput, seed};
  TANDEM_ASSIGN(const ServingBench::Arrived arrived, arm.bench->arrive(arrivals));
  if (!counts) return {};
  for (const AnsweredRequest& request : arrived.requests) {
    arm.ttft.values.push_back(request.ttft_s * 1e3);
    arm.tpot.values.push_back(request.tpot_s * 1e3);
  }
  arm.gap_s += arrived.gap_s;
  arm.step_s += arrived.step_s;
  arm.steps += arrived.steps;
  arm.in_time += arrived.in_time;
  arm.late += arrived.late;
  arm.margin_s = arrived.margin_s;
  return {};
}

}  // namespace

Status measure_arrivals(const EngineSettings& settings, int rounds, BenchReport& report) {
  EngineSettings with = settings;
  with.options.max_num_seqs = 64;
  with.options.max_num_batched_tokens = 2048;
  with.options.max_lora_rank = kArrivalRank;
  with.cpu_workers = 0;  // all adapters are resident
  if (with.pool_gb == 0) with.pool_gb = kPoolGb;
  std::vector<DummyAdapter> adapters;
  std::vector<std::string> names;
  for (std::int32_t i = 0; i < kAdapters; ++i) {
    adapters.push_back({fmt::format("resident-{}", i), kArrivalRank, qkv_modules()});
    names.push_back(adapters.back().name);
  }
  TANDEM_ASSIGN(Arm at_once, start(with, false));
  TANDEM_ASSIGN(Arm in_time, start(with, true));
  const std::array<Arm*, 2> arms = {&at_once, &in_time};
  for (Arm* arm : arms) TANDEM_TRY(arm->bench->add_adapters(adapters));
  for (int round = -1; round < rounds; ++round) {  // the first round loads the adapters
    log::info("{} requests at {} a second, round {} of {}", kRequests, kRate, round + 1, rounds);
    for (std::size_t i = 0; i < arms.size(); ++i) {
      Arm& arm = *arms[(i + static_cast<std::size_t>(round + 1)) % arms.size()];
      TANDEM_TRY(run_round(arm, names, static_cast<std::uint64_t>(round + 2), round >= 0));
    }
  }
  for (const Arm* arm : arms) {
    report.add(arm->ttft);
    report.add(arm->tpot);
    report.fact(fmt::format("first token, steps enqueued {}", arm->name),
                fmt::format("mean {:.2f} ms, 90th percentile {:.2f}", arm->ttft.mean(),
                            arm->ttft.percentile(0.9)));
    report.fact(fmt::format("steps enqueued {}", arm->name),
                fmt::format("{} of {:.3f} ms, {} held back, {} of them too late, {:.0f} us "
                            "before the end, gaps {:.4f}",
                            arm->steps, arm->step_s / static_cast<double>(arm->steps) * 1e3,
                            arm->in_time + arm->late, arm->late, arm->margin_s * 1e6,
                            arm->gap_s / arm->step_s));
  }
  report.add({"G11", fmt::format("{} tokens for a resident adapter, 9/s: mean TTFT", kPrompt),
              in_time.ttft.mean(), "ms", Must::be_at_most, 7.5});
  report.add({"G11", "their time per token over steps enqueued at once",
              in_time.tpot.mean() / at_once.tpot.mean(), "", Must::be_at_most, 1.01});
  report.add({"G11", "their gap between steps over the step", in_time.gap_s / in_time.step_s, "",
              Must::be_at_most, 0.03});
  return {};
}

}  // namespace tandem
