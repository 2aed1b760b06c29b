#include "tools/bench/engine/bench_shards_serving.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log/log.h"
#include "engine/model/spec/spread.h"
#include "tools/bench/coldstart/cold_report.h"
#include "tools/bench/coldstart/cold_runs.h"
#include "tools/bench/measure/bench_serving.h"
#include "tools/cli/machine.h"
#include "tools/setup/gpus.h"

namespace tandem {
namespace {

constexpr std::int32_t kColdRank = 64;

std::int32_t num_devices_of(const ShardServing& serving) {
  return static_cast<std::int32_t>(serving.settings.tensor_parallel);
}

// Limits for both engines of a comparison, even if the settings allow more.
EngineSettings cold_settings(const ShardServing& serving) {
  EngineSettings settings = serving.settings;
  settings.options.max_num_seqs = serving.on_gpu ? 64 : 16;
  settings.options.max_num_batched_tokens = serving.on_gpu ? 2048 : 512;
  settings.max_model_len =
      std::min<std::int64_t>(serving.on_gpu ? 2048 : 512, serving.spec.max_position_embeddings);
  settings.options.max_lora_rank = 128;
  settings.options.max_adapters = 1 << 20;
  return settings;
}

Result<std::vector<ExactAnswer>> answers_of(const EngineSettings& settings, double& effect,
                                            ColdAdapters& adapters) {
  TANDEM_ASSIGN(const auto engine, ColdEngine::start(settings, adapters));
  TANDEM_ASSIGN(effect, adapter_effect(*engine, kColdRank));
  return exact_answers(*engine, kColdRank);
}

// Requests per second of S-LoRA's workload: one round on a new engine.
Result<double> many_adapters_rate(const EngineSettings& settings,
                                  const std::vector<DummyAdapter>& adapters,
                                  const ServingBench::Trace& trace) {
  TANDEM_ASSIGN(const auto bench, ServingBench::start(settings));
  TANDEM_TRY(bench->add_adapters(adapters));
  ServingBench::Trace first = trace;  // warm-up
  first.requests = std::max(1, trace.requests / 4);
  TANDEM_ASSIGN([[maybe_unused]] const ServedLoad warm, bench->serve(first));
  TANDEM_ASSIGN(const ServedLoad load, bench->serve(trace));
  return load.requests_per_s();
}

}  // namespace

Status measure_sharded_cold_starts(const ShardServing& serving, BenchReport& report) {
  ColdStartOptions options;
  TANDEM_ASSIGN(options.only, BarSelection::parse("C1,C2,C4,C8", {"C1", "C2", "C4", "C8"}));
  options.modes = {AdapterMode::cached, AdapterMode::planned, AdapterMode::pipelined,
                   AdapterMode::cpu_assist, AdapterMode::on_demand};
  TANDEM_ASSIGN(options.lengths,
                LengthDistribution::parse(serving.on_gpu ? "alpaca" : "uniform[2,6]"));
  options.rank = kColdRank;
  options.requests = serving.on_gpu ? 120 : 4;
  options.rate = serving.on_gpu ? 9 : 200;
  ColdAdapters adapters(serving.spec, serving.dtype, num_devices_of(serving));
  TANDEM_ASSIGN(const ColdRuns runs, run_cold_starts(cold_settings(serving), options, adapters));
  BenchReport of_cold("coldstart", "");
  report_cold_starts(runs, options, logprob_tolerance(serving.dtype), of_cold);
  for (Bar bar : of_cold.bars()) {
    bar.judged = serving.on_gpu || bar.id == "C8";  // exactness does not depend on speed
    bar.what = fmt::format("{}: {}", bar.id, bar.what);
    bar.id = "T5";
    report.add(std::move(bar));
  }
  return {};
}

Status measure_sharded_throughput(const ShardServing& serving, BenchReport& report) {
  const std::int32_t count = serving.on_gpu ? 2000 : 20;
  ServingBench::Trace trace;
  const std::vector<DummyAdapter> adapters = s2_adapters(count);
  for (const DummyAdapter& adapter : adapters) trace.adapters.push_back(adapter.name);
  trace.requests = serving.on_gpu ? 600 : 12;
  // More than the engine can serve, so that the measured rate is the engine's limit.
  trace.rate = 1000;
  trace.seed = 1;
  trace.longest = serving.on_gpu ? 512 : 32;
  EngineSettings settings = serving.settings;
  settings.options.max_num_seqs = serving.on_gpu ? 256 : 16;
  settings.options.max_num_batched_tokens = serving.on_gpu ? 2048 : 512;
  settings.max_model_len = 2 * trace.longest + 16;
  settings.options.max_lora_rank = 64;
  settings.host_tier_gb =
      static_cast<double>(host_tier_bytes_for(spread_over(serving.spec, num_devices_of(serving)),
                                              serving.dtype, adapters)) /
      1e9;
  const std::int64_t devices = serving.settings.tensor_parallel;
  Samples of_one{fmt::format("S2 workload, {} adapters, one device", count), "requests/s", {}};
  Samples of_many{
      fmt::format("S2 workload, {} adapters, {} devices", count, devices), "requests/s", {}};
  for (const bool shared : {false, true, true, false}) {  // the order alternates
    log::info("{} adapters, {} device(s)", count, shared ? devices : 1);
    TANDEM_ASSIGN(
        const double rate,
        many_adapters_rate(shared ? settings : on_first_device(settings), adapters, trace));
    (shared ? of_many : of_one).values.push_back(rate);
  }
  report.add(of_one);
  report.add(of_many);
  report.add({"T6", fmt::format("{} adapters, requests/s: {} devices over one", count, devices),
              of_many.mean() / of_one.mean(), "", Must::be_at_least, 1.6,
              serving.on_gpu && devices == 2});
  return {};
}

Status compare_sharded_answers(const ShardServing& serving, BenchReport& report) {
  constexpr double kLeastEffect = 1e-2;
  log::info("answers of one device and of {}", serving.settings.tensor_parallel);
  ColdAdapters adapters(serving.spec, serving.dtype, num_devices_of(serving));
  EngineSettings settings = cold_settings(serving);
  settings.options.adapter_mode = AdapterMode::cached;
  settings.host_tier_gb =
      static_cast<double>(adapters.host_tier_bytes(ColdAdapters::kContents * 4, kColdRank)) / 1e9;
  double effect = 0;
  TANDEM_ASSIGN(const auto expected, answers_of(on_first_device(settings), effect, adapters));
  if (effect < kLeastEffect) {
    return error(StatusCode::internal,
                 "an adapter changes log-probabilities by {:.1e}: agreement would say nothing",
                 effect);
  }
  TANDEM_ASSIGN(const auto got, answers_of(settings, effect, adapters));
  const double tolerance = logprob_tolerance(serving.dtype);
  const Agreement agreement = compare_answers(expected, got, tolerance);
  report.fact("answers as one device's",
              fmt::format("{} tokens, {} others, {} near-ties", agreement.tokens,
                          agreement.wrong_tokens, agreement.near_ties));
  report.add({"T7", fmt::format("tokens other than one device's, of {}", agreement.tokens),
              static_cast<double>(agreement.wrong_tokens), "", Must::be_at_most, 0});
  report.add({"T7", "largest difference of a log-probability from one device's",
              agreement.max_difference, "", Must::be_at_most, tolerance});
  return {};
}

}  // namespace tandem
