// tandem bench engine: compares the time of a step with the machine's limits, both measured in the
// same run.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/limits/bytes_text.h"
#include "base/log/log.h"
#include "tools/bench/common/bench_report.h"
#include "tools/bench/common/bench_selection.h"
#include "tools/bench/common/command_line.h"
#include "tools/bench/engine/bench_constrained.h"
#include "tools/bench/engine/bench_engine.h"
#include "tools/bench/engine/bench_engine_gpu.h"
#include "tools/bench/engine/bench_shards.h"
#include "tools/bench/engine/bench_tracing.h"
#include "tools/bench/measure/bench_adapters.h"
#include "tools/bench/measure/bench_executor.h"
#include "tools/bench/measure/bench_peaks.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/machine.h"
#include "tools/cli/progress.h"
#include "tools/setup/engine_setup.h"

namespace tandem {
namespace {

const CommandInfo kInfo{
    "bench engine", "[--model DIR|SHAPE] [flags]",
    "Times a model with dummy weights: decode, prefill, adapters; on a GPU also the engine under\n"
    "load and its start. Every figure is a ratio to what the same threads, or the same GPU, reach\n"
    "in the same run, so that a busy machine does not lie.\n"
    "With --tensor-parallel N: N devices that share the model beside one that has all of it.",
    "  tandem bench engine --device host --json engine.json --check\n"
    "  tandem bench engine --device cuda --only G1,G2\n"
    "  tandem bench engine --tensor-parallel 2 --only T1,T3"};

// Exceeds the cache of any machine.
constexpr std::size_t kMemoryBytes = std::size_t{1} << 30;
// bf16 has 8 significant bits: two ways of computing the same logits differ by rounding in every
// layer.
constexpr double kToleranceBf16 = 5e-2;
constexpr double kToleranceF32 = 1e-3;
constexpr int kAdapterSet = 0;  // the only set

struct EngineBenchSettings {
  std::int64_t rounds = 0;   // 0: the device's default
  std::int64_t context = 0;  // 0: the device's default
  std::string only;
};

double max_relative(const std::vector<float>& a, const float* b) {
  double difference = 0;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, static_cast<double>(std::abs(a[i] - b[i])));
    largest = std::max(largest, static_cast<double>(std::abs(b[i])));
  }
  return largest > 0 && std::isfinite(difference) ? difference / largest : HUGE_VAL;
}

// Checks each timed case against another way of computing the same result.
Status check_results(ExecutorBench& bench, const ExecutorBenchOptions& options, double tolerance,
                     BenchReport& report) {
  double worst = 0;
  for (const int set : {ExecutorBench::kNoAdapters, kAdapterSet}) {
    TANDEM_ASSIGN(const auto together, bench.decode_logits(0, options.batch, set, false));
    const std::size_t vocab = together.size() / static_cast<std::size_t>(options.batch);
    for (std::int32_t i = 0; i < options.batch; ++i) {
      TANDEM_ASSIGN(const auto alone, bench.decode_logits(i, 1, set, false));
      worst = std::max(worst,
                       max_relative(alone, together.data() + static_cast<std::size_t>(i) * vocab));
    }
  }
  TANDEM_ASSIGN(const auto prefill, bench.prefill_logits(0, options.prefill_tokens));
  TANDEM_ASSIGN(const auto last, bench.prefill_logits(options.prefill_tokens - 1, 1));
  worst = std::max(worst, max_relative(last, prefill.data()));
  report.fact("checked: batched = alone, prefill = decode", fmt::format("within {:.1e}", worst));
  if (worst > tolerance) {
    return error(StatusCode::internal,
                 "results differ by {:.2e}, more than {:.0e}: nothing was timed", worst, tolerance);
  }
  return {};
}

struct Timings {
  Samples bandwidth{"memory read", "GB/s", {}};
  Samples decode1{"decode step, batch 1", "ms", {}};
  Samples decode8{"decode step, batch 8", "ms", {}};
  Samples adapters8{"decode step, batch 8, 8 adapters", "ms", {}};
  Samples prefill{"prefill step, 512 tokens", "ms", {}};
  Samples peak{"oneDNN matmul, best dtype and shape", "GFLOP/s", {}};
};

// The cases run one after another in every round, so that disturbances affect all alike.
Status time_decode(ExecutorBench& bench, const ExecutorBenchOptions& options, std::int64_t rounds,
                   MemorySpeed& memory, Timings& timings) {
  for (std::int64_t round = -1; round < rounds; ++round) {
    const double speed = memory.read_pass();
    TANDEM_ASSIGN(const double one, bench.decode(1, ExecutorBench::kNoAdapters));
    TANDEM_ASSIGN(const double eight, bench.decode(options.batch, ExecutorBench::kNoAdapters));
    TANDEM_ASSIGN(const double adapted, bench.decode(options.batch, kAdapterSet));
    if (round < 0) continue;  // warm-up
    timings.bandwidth.values.push_back(speed / 1e9);
    timings.decode1.values.push_back(one * 1e3);
    timings.decode8.values.push_back(eight * 1e3);
    timings.adapters8.values.push_back(adapted * 1e3);
  }
  return {};
}

// The best speed of oneDNN's own matrix products with the model's sizes, in either dtype.
Result<double> best_peak(const ModelSpec& spec, std::int32_t rows, int threads) {
  double best = 0;
  const std::pair<std::int64_t, std::int64_t> shapes[] = {
      {2 * spec.mlp().size, spec.hidden_size},
      {spec.hidden_size, spec.mlp().size},
      {spec.q_size() + 2 * spec.kv_size(), spec.hidden_size}};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const auto& [n, k] : shapes) {
      const auto peak = OnednnPeak::create(dtype, rows, n, k, threads);
      // oneDNN has no bf16 product for CPUs without AVX-512.
      if (peak.status().code() == StatusCode::unavailable && dtype == DType::bf16) continue;
      TANDEM_TRY(peak.status());
      for (int call = 0; call < 3; ++call) {
        TANDEM_ASSIGN(const double flops, (*peak)->call());
        best = std::max(best, flops);
      }
    }
  }
  return best;
}

Status time_prefill(ExecutorBench& bench, const ModelSpec& spec,
                    const ExecutorBenchOptions& options, std::int64_t rounds, int threads,
                    Timings& timings) {
  for (std::int64_t round = -1; round < rounds; ++round) {
    TANDEM_ASSIGN(const double flops, best_peak(spec, options.prefill_tokens, threads));
    TANDEM_ASSIGN(const double seconds, bench.prefill(options.prefill_tokens));
    if (round < 0) continue;
    timings.peak.values.push_back(flops / 1e9);
    timings.prefill.values.push_back(seconds * 1e3);
  }
  return {};
}

void add_bars(BenchReport& report, const ExecutorBench& bench, const Timings& timings,
              double prefill_flops, double overhead_mb) {
  const double share = bench.weight_bytes_read() / (timings.decode1.median() * 1e-3) /
                       (timings.bandwidth.median() * 1e9);
  if (share > 1.05) {
    report.fact("disturbed",
                "other programs slowed the memory reads more than the decoding: H1 "
                "says little, repeat on a quieter machine");
  }
  report.add({"H1", "decode, batch 1: weight bytes/s over memory read speed", share, "",
              Must::be_at_least, 0.70});
  report.add({"H2", "decode step, batch 8 over batch 1",
              timings.decode8.median() / timings.decode1.median(), "", Must::be_at_most, 1.5});
  const double prefill =
      prefill_flops / (timings.prefill.median() * 1e-3) / (timings.peak.median() * 1e9);
  report.add({"H3", "prefill of 512 tokens: FLOP/s over oneDNN's own peak", prefill, "",
              Must::be_at_least, 0.60});
  report.add({"H4", "batch 8 with 8 distinct rank-16 adapters on all modules, over none",
              timings.adapters8.median() / timings.decode8.median(), "", Must::be_at_most, 1.25});
  report.add(
      {"H5", "resident memory beyond weights and pools", overhead_mb, "MB", Must::be_at_most, 200});
}

// Runs a whole engine, because the masks are waited for between its steps.
Status time_constrained(EngineSettings settings, BenchReport& report) {
  settings.options.max_num_seqs = 32;
  settings.max_model_len = 256;
  TANDEM_ASSIGN(const auto bench, ServingBench::start(settings));
  return measure_constrained(*bench, 3, 24, report);
}

// H1 to H5. They run first in the process, because H5 judges its memory.
Status measure_host_bars(Device& device, const ModelSpec& spec, DType dtype, DummyFormat weights,
                         const HostDeviceOptions& host, const EngineBenchSettings& bench_settings,
                         BenchReport& report) {
  ExecutorBenchOptions options;
  options.weights = weights;
  options.batch = 8;
  options.context = static_cast<std::int32_t>(bench_settings.context);
  options.sets = {{"rank 16 all7", 16, all_modules(), options.batch}};  // kAdapterSet
  options.steps_per_sample = 1;
  options.straight = true;
  const SteadyClock clock;
  Progress progress("making dummy weights", STDERR_FILENO, Progress::is_terminal(STDERR_FILENO),
                    clock);
  const TimePoint start = clock.now();
  Device* const devices[] = {&device};
  TANDEM_ASSIGN(const auto bench, ExecutorBench::create(devices, spec, dtype, options,
                                                        [&](std::size_t done, std::size_t total) {
                                                          progress.update(done, total);
                                                        }));
  progress.finish();
  report.fact("set-up, seconds", std::round(seconds_between(start, clock.now()) * 10) / 10);
  report.fact("weights", bytes_text(static_cast<double>(bench->model().weight_bytes())));

  log::info("checking results");
  TANDEM_TRY(
      check_results(*bench, options, dtype == DType::f32 ? kToleranceF32 : kToleranceBf16, report));
  const double overhead_mb =
      (static_cast<double>(resident_bytes()) - static_cast<double>(bench->device_bytes())) / 1e6;
  Timings timings;
  {
    log::info("timing decode, {} rounds", bench_settings.rounds);
    TANDEM_ASSIGN(const auto memory,
                  MemorySpeed::create(kMemoryBytes, host.num_threads, host.cpus));
    TANDEM_TRY(time_decode(*bench, options, bench_settings.rounds, *memory, timings));
  }
  log::info("timing prefill");
  TANDEM_TRY(time_prefill(*bench, spec, options,
                          std::max<std::int64_t>(3, bench_settings.rounds / 2), host.num_threads,
                          timings));
  for (const Samples* samples : {&timings.bandwidth, &timings.decode1, &timings.decode8,
                                 &timings.adapters8, &timings.peak, &timings.prefill}) {
    report.add(*samples);
  }
  report.fact("weight bytes read by a decode step", bytes_text(bench->weight_bytes_read()));
  const double flops = bench->linear_flops(options.prefill_tokens);
  report.fact("FLOPs of the prefill (linear layers)", fmt::format("{:.1f} G", flops / 1e9));
  add_bars(report, *bench, timings, flops, overhead_mb);
  return {};
}

Result<int> bench_engine(const EngineSettings& settings, const EngineBenchSettings& bench_settings,
                         const ReportSettings& report_settings, const std::string& command) {
  // Parsed first, so that a mistyped id is reported at once.
  TANDEM_ASSIGN(const BarSelection only,
                BarSelection::parse(bench_settings.only, {"H", "S1", "L1"}));
  TANDEM_ASSIGN(const ModelSpec spec, find_model_spec(settings.model));
  TANDEM_ASSIGN(const auto device, make_device(settings));
  TANDEM_ASSIGN(const DType dtype, choose_dtype(settings, spec, device->info().is_cuda));
  TANDEM_ASSIGN(const HostDeviceOptions host, choose_host_options(settings));
  BenchReport report("engine", command);
  report.fact("model", fmt::format("{}, {}, dummy weights in {}", settings.model, to_string(dtype),
                                   settings.weights));
  report.fact("threads", host.num_threads);
  report.fact("device", device->info().name);

  if (only.any("H")) {
    TANDEM_TRY(measure_host_bars(*device, spec, dtype, parse_dummy_format(settings.weights).value(),
                                 host, bench_settings, report));
  }
  if (only.any("S1")) TANDEM_TRY(time_constrained(settings, report));
  // Runs only if it is named, because it needs many more rounds than the others.
  if (!bench_settings.only.empty() && only.any("L1")) {
    TANDEM_TRY(measure_tracing(settings, bench_settings.rounds, report));
  }
  return report.finish(report_settings);
}

}  // namespace

int run_bench_engine(const std::vector<std::string>& args) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  EngineSettings engine;
  engine.model = "auto";
  engine.load_format = "dummy";
  EngineBenchSettings bench;
  ReportSettings report;
  ServerSettings server;
  SettingsTable table;
  add_report_settings(table, report);
  table.group("Benchmark");
  table.add(bench.rounds, "rounds", "samples of each figure; 0: 7 on the host, 50 on a GPU")
      .range(0, 1000)
      .flag_only();
  table
      .add(bench.context, "context",
           "tokens in each sequence's cache; 0: 128 on the host, 512 on a GPU")
      .range(0, 4096)
      .flag_only();
  table
      .add(bench.only, "only",
           "only these bars, as in G1,L1 on a GPU, H, S1 or L1 on the host, and T1,T3 on several "
           "devices")
      .meta("IDS")
      .flag_only();
  add_engine_settings(table, engine, server, {});
  if (const auto status = read_settings(kInfo, table, args)) return *status;
  set_up_log(engine.log);
  const std::string command = bench_command_line("engine", args);
  const bool gpu = is_for_gpu(engine);
  if (engine.model == "auto") engine.model = gpu ? "llama-2-7b" : "llama-3.2-1b";
  if (bench.rounds == 0) bench.rounds = gpu ? 50 : 7;
  if (bench.context == 0) bench.context = gpu ? 512 : 128;
  if (engine.tensor_parallel > 1) {
    const Result<int> status =
        bench_shards(engine, {bench.only, bench.rounds, bench.context}, report, command);
    return status ? *status : report_failure(kInfo, status.status());
  }
  const Result<int> status = gpu ? bench_engine_on_gpu(engine,
                                                       {bench.only, bench.rounds, bench.context,
                                                        seconds_between(begin, clock.now())},
                                                       report, command)
                                 : bench_engine(engine, bench, report, command);
  return status ? *status : report_failure(kInfo, status.status());
}

}  // namespace tandem
