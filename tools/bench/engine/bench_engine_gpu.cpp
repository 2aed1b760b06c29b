#include "tools/bench/engine/bench_engine_gpu.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/log/log.h"
#include "gpu/cuda/copy_speed.h"
#include "tools/bench/common/bench_selection.h"
#include "tools/bench/engine/bench_activated.h"
#include "tools/bench/engine/bench_arrivals.h"
#include "tools/bench/engine/bench_constrained.h"
#include "tools/bench/engine/bench_link.h"
#include "tools/bench/engine/bench_many_adapters.h"
#include "tools/bench/engine/bench_outer.h"
#include "tools/bench/engine/bench_tracing.h"
#include "tools/bench/measure/bench_adapters.h"
#include "tools/bench/measure/bench_executor.h"
#include "tools/bench/measure/bench_gemm_peak.h"
#include "tools/bench/measure/bench_serving.h"
#include "tools/cli/machine.h"
#include "tools/cli/progress.h"
#include "tools/setup/engine_setup.h"
#include "tools/setup/gpus.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 14> kBars = {"G1",  "G2",   "G3", "G4", "G5", "G9", "G10",
                                                    "G11", "link", "S1", "L1", "A1", "A2", "A3"};
constexpr std::array<std::int32_t, 4> kBatches = {1, 8, 32, 64};
constexpr double kDecodeBar = 1.12;  // G1, relative to the floor, at every batch size
struct Prompt {
  std::int32_t tokens;
  double bar;  // G4, relative to the floor: launches have a larger share in a short prompt
};
constexpr std::array<Prompt, 3> kPrompts = {{{64, 1.25}, {512, 1.20}, {2048, 1.15}}};
constexpr std::int32_t kLoraBatch = 32;
constexpr int kArrivalRounds = 4;
constexpr int kTracingRounds = 7;
// Number of rounds of prompts, alternating with the matrix products that they are compared with.
constexpr int kTurns = 5;
constexpr int kPeakSamples = 3;
constexpr int kWarmUp = 3;
// bf16 has 8 significant bits: two ways of computing the same logits differ by rounding in every
// layer.
constexpr double kTolerance = 5e-2;

double max_relative(const float* a, const float* b, std::size_t count) {
  double difference = 0;
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite(a[i])) return HUGE_VAL;
    difference = std::max(difference, static_cast<double>(std::abs(a[i] - b[i])));
    largest = std::max(largest, static_cast<double>(std::abs(b[i])));
  }
  return largest > 0 && std::isfinite(difference) ? difference / largest : HUGE_VAL;
}

class GpuBench {
 public:
  GpuBench(const EngineSettings& settings, const GpuEngineBench& options, BenchReport& report)
      : settings_(settings), options_(options), report_(report) {}

  Status run() {
    TANDEM_ASSIGN(only_, BarSelection::parse(options_.only, {kBars.begin(), kBars.end()}));
    TANDEM_ASSIGN(spec_, find_model_spec(settings_.model));
    TANDEM_ASSIGN(dtype_, choose_dtype(settings_, spec_, true));
    report_.fact("model", fmt::format("{}, {}, dummy weights in {}", settings_.model,
                                      to_string(dtype_), settings_.weights));
    // The start is measured first: later it would not include one-time work such as the driver's
    // context.
    if (only_.any("G10", "G5", "G3", "S1")) TANDEM_TRY(run_engine());
    if (only_.any("G11")) TANDEM_TRY(measure_arrivals(settings_, kArrivalRounds, report_));
    if (only_.any("G1", "G2", "G4")) TANDEM_TRY(run_steps());
    if (only_.any("link")) {
      TANDEM_ASSIGN(const auto device, make_device(settings_));
      TANDEM_TRY(
          measure_layer_pieces(*device, spec_, dtype_, engine_defaults::kPageTokens, report_));
    }
    if (only_.any("G9")) TANDEM_TRY(measure_many_adapters(settings_, spec_, dtype_, report_));
    if (only_.any("L1")) TANDEM_TRY(measure_tracing(settings_, kTracingRounds, report_));
    if (only_.any("A1", "A2")) {
      TANDEM_TRY(measure_outer_modules(settings_, spec_, dtype_, rounds(), report_));
    }
    if (only_.any("A3")) TANDEM_TRY(measure_activated(settings_, report_));
    return {};
  }

 private:
  Status run_engine() {
    log::info("starting the engine");
    EngineSettings settings = settings_;
    settings.options.max_num_seqs = 64;
    settings.options.max_num_batched_tokens = 2048;
    settings.options.max_lora_rank = 64;
    std::vector<DummyAdapter> adapters;
    adapters.reserve(kLoraBatch);
    for (std::int32_t i = 0; i < kLoraBatch; ++i) {
      adapters.push_back({fmt::format("dummy-{}", i), 16, all_modules()});
    }
    settings.host_tier_gb = static_cast<double>(host_tier_bytes_for(spec_, dtype_, adapters)) / 1e9;
    const TimePoint start = clock_.now();
    TANDEM_ASSIGN(const auto bench, ServingBench::start(settings));
    const double loaded = seconds_between(start, clock_.now());
    TANDEM_ASSIGN(const double token, bench->first_token());
    report_.fact("device", bench->setup().devices.front()->info().name);
    report_.fact("start, seconds: before, engine, first token",
                 fmt::format("{:.2f}, {:.2f}, {:.3f}", options_.started_s, loaded, token));
    if (only_.any("G10")) {
      report_.add({"G10", "start to first token, graphs captured",
                   options_.started_s + loaded + token, "s", Must::be_at_most, 10});
    }
    if (only_.any("G5")) TANDEM_TRY(time_gaps(*bench));
    if (only_.any("S1")) TANDEM_TRY(measure_constrained(*bench, 7, 200, report_));
    if (only_.any("G3")) {
      TANDEM_TRY(bench->add_adapters(adapters));
      TANDEM_TRY(time_distinct(*bench, adapters));
    }
    return {};
  }

  Status time_gaps(ServingBench& bench) {
    GenerationRequest greedy;
    greedy.sampling.temperature = 0;
    for (const std::int32_t batch : kBatches) {
      log::info("the engine at batch {}", batch);
      TANDEM_ASSIGN(const StepShares shares, bench.steady_decode(batch, 512, 200, greedy));
      report_.fact(fmt::format("engine step at batch {}", batch),
                   fmt::format("{:.3f} ms, {} steps", shares.step * 1e3, shares.steps));
      report_.add({"G5", fmt::format("gap between steps over the step, batch {}", batch),
                   shares.gap, "", Must::be_at_most, 0.03});
    }
    return {};
  }

  Status time_distinct(ServingBench& bench, const std::vector<DummyAdapter>& adapters) {
    log::info("distinct and identical adapters");
    std::vector<std::string> distinct;
    distinct.reserve(adapters.size());
    for (const DummyAdapter& adapter : adapters) distinct.push_back(adapter.name);
    const std::vector<std::string> identical(distinct.size(), distinct.front());
    Samples of_distinct{"32 requests, 32 rank-16 all7 adapters", "tokens/s", {}};
    Samples of_identical{"32 requests, one rank-16 all7 adapter", "tokens/s", {}};
    for (int round = -1; round < 3; ++round) {  // alternating; the first round loads the adapters
      TANDEM_ASSIGN(const ServedLoad a, bench.burst(distinct, 128, 128));
      TANDEM_ASSIGN(const ServedLoad b, bench.burst(identical, 128, 128));
      if (round < 0) continue;
      of_distinct.values.push_back(a.tokens_per_s());
      of_identical.values.push_back(b.tokens_per_s());
    }
    report_.add(of_distinct);
    report_.add(of_identical);
    report_.add({"G3", "distinct over identical adapters, batch 32, rank 16 all7",
                 of_distinct.median() / of_identical.median(), "", Must::be_at_least, 0.95});
    return {};
  }

  Status run_steps() {
    // The better of two measurements counts, because a floor that is too high would improve every
    // figure that is relative to it.
    TANDEM_ASSIGN(const double before, measure_cuda_copy_speed(first_gpu(settings_)));
    TANDEM_ASSIGN(const auto device, make_device(settings_));
    report_.fact("GPU", device->info().name);
    ExecutorBenchOptions options;
    options.batch = kBatches.back();
    options.context = static_cast<std::int32_t>(options_.context);
    options.prefill_tokens = kPrompts.back().tokens;
    options.straight = true;
    options.weights = parse_dummy_format(settings_.weights).value();
    if (only_.any("G2")) {
      options.sets = {{"rank 64 qkv", 64, qkv_modules(), kLoraBatch},
                      {"rank 16 all7", 16, all_modules(), kLoraBatch}};
    }
    Progress progress("making weights, adapters and caches", STDERR_FILENO,
                      Progress::is_terminal(STDERR_FILENO), clock_);
    Device* const devices[] = {device.get()};
    TANDEM_ASSIGN(const auto bench, ExecutorBench::create(devices, spec_, dtype_, options,
                                                          [&](std::size_t done, std::size_t total) {
                                                            progress.update(done, total);
                                                          }));
    progress.finish();
    log::info("checking results");
    TANDEM_TRY(check_results(*bench, static_cast<int>(options.sets.size())));
    TANDEM_ASSIGN(const double after, measure_cuda_copy_speed(first_gpu(settings_)));
    const double copy = std::max(before, after);
    report_.fact("device copy, read + written, twice",
                 fmt::format("{:.3f} and {:.3f} TB/s", before / 1e12, after / 1e12));
    if (only_.any("G1")) TANDEM_TRY(time_decode(*bench, copy));
    if (only_.any("G2")) TANDEM_TRY(time_adapters(*bench, copy));
    if (only_.any("G4")) TANDEM_TRY(time_prefill(*bench, *device, copy));
    return {};
  }

  // Checks each timed case against another way of computing the same result.
  Status check_results(ExecutorBench& bench, int num_sets) {
    const auto vocab = static_cast<std::size_t>(spec_.vocab_size);
    double worst = 0;
    std::string where;
    const auto compare = [&](std::string_view ways, std::int32_t rows, const float* a,
                             const float* b, std::size_t count) {
      const double difference = max_relative(a, b, count);
      if (difference <= worst) return;
      worst = difference;
      where = fmt::format("{}, {} rows", ways, rows);
    };
    double least_effect = HUGE_VAL;
    for (const std::int32_t batch : kBatches) {
      TANDEM_ASSIGN(const auto eager,
                    bench.decode_logits(0, batch, ExecutorBench::kNoAdapters, false));
      TANDEM_ASSIGN(const auto recorded,
                    bench.decode_logits(0, batch, ExecutorBench::kNoAdapters, true));
      compare("recorded and eager", batch, recorded.data(), eager.data(), eager.size());
      TANDEM_ASSIGN(const auto alone,
                    bench.decode_logits(batch - 1, 1, ExecutorBench::kNoAdapters, true));
      compare("alone and in a batch", batch, alone.data(), eager.data() + (batch - 1) * vocab,
              vocab);
      for (int set = 0; set < num_sets && batch == kLoraBatch; ++set) {
        TANDEM_ASSIGN(const auto adapted, bench.decode_logits(0, batch, set, true));
        TANDEM_ASSIGN(const auto same, bench.decode_logits(0, batch, set, false));
        compare("recorded and eager with adapters", batch, adapted.data(), same.data(),
                same.size());
        for (const std::int32_t row : {0, batch / 2, batch - 1}) {
          TANDEM_ASSIGN(const auto one, bench.decode_logits(row, 1, set, true));
          const float* in_batch = adapted.data() + static_cast<std::size_t>(row) * vocab;
          const float* base = eager.data() + static_cast<std::size_t>(row) * vocab;
          compare("alone and in a batch with adapters", batch, one.data(), in_batch, vocab);
          least_effect = std::min(least_effect, max_relative(in_batch, base, vocab));
        }
      }
    }
    if (only_.any("G4")) {
      for (const Prompt& prompt : kPrompts) {
        TANDEM_ASSIGN(const auto at_once, bench.prefill_logits(0, prompt.tokens));
        TANDEM_TRY(bench.prefill_logits(0, prompt.tokens - 1).status());
        TANDEM_ASSIGN(const auto last, bench.prefill_logits(prompt.tokens - 1, 1));
        compare("prefill and decode", prompt.tokens, at_once.data(), last.data(), last.size());
      }
    }
    report_.fact("checked: recorded = eager, batched = alone, prefill = decode",
                 fmt::format("within {:.1e}", worst));
    if (worst > kTolerance) {
      return error(StatusCode::internal,
                   "results differ by {:.2e} ({}), more than {:.0e}: nothing was timed", worst,
                   where, kTolerance);
    }
    if (num_sets == 0) return {};
    report_.fact("checked: adapters change the logits", fmt::format("by {:.1e}", least_effect));
    if (least_effect < 1e-3) {
      return error(StatusCode::internal, "an adapter changes nothing: nothing was timed");
    }
    return {};
  }

  // Collects `count` samples in ms of `step`, which returns seconds, after a few that do not count.
  template <typename Step>
  static Status take(Samples& samples, int count, const Step& step) {
    for (int i = -kWarmUp; i < count; ++i) {
      TANDEM_ASSIGN(const double seconds, step());
      if (i >= 0) samples.values.push_back(seconds * 1e3);
    }
    return {};
  }

  void add_over_floor(const char* id, const std::string& what, const Samples& samples, double floor,
                      double bar) {
    report_.add(samples);
    report_.add({id, fmt::format("{}, over the floor of {:.2f} ms", what, floor * 1e3),
                 samples.median() * 1e-3 / floor, "", Must::be_at_most, bar});
  }

  Status time_decode(ExecutorBench& bench, double copy) {
    for (const std::int32_t batch : kBatches) {
      log::info("decode, batch {}", batch);
      Samples samples{fmt::format("decode step, batch {}", batch), "ms", {}};
      TANDEM_TRY(
          take(samples, rounds(), [&] { return bench.decode(batch, ExecutorBench::kNoAdapters); }));
      add_over_floor(
          "G1", fmt::format("decode step, context {}, batch {}", options_.context, batch), samples,
          bench.decode_bytes(batch, ExecutorBench::kNoAdapters) / copy, kDecodeBar);
    }
    return {};
  }

  Status time_adapters(ExecutorBench& bench, double copy) {
    // In the order of the sets in run_steps().
    constexpr std::pair<const char*, double> kSets[] = {{"rank 64 qkv", 1.15},
                                                        {"rank 16 all7", 1.25}};
    for (const int set : {0, 1}) {
      const auto& [what, bar] = kSets[set];
      log::info("decode with adapters, {} of 2", set + 1);
      Samples samples{fmt::format("decode step, batch {0}, {0} x {1}", kLoraBatch, what), "ms", {}};
      TANDEM_TRY(take(samples, rounds(), [&] { return bench.decode(kLoraBatch, set); }));
      add_over_floor("G2", fmt::format("decode step, 32 distinct adapters, {}", what), samples,
                     bench.decode_bytes(kLoraBatch, set) / copy, bar);
    }
    return {};
  }

  // Alternates with the peak of matrix products. For long prompts the peak is measured at the GPU's
  // power limit, as the prompts are, because an idle GPU has higher clocks.
  Status time_prefill(ExecutorBench& bench, Device& device, double copy) {
    TANDEM_ASSIGN(const auto peak, GemmPeak::create(device, dtype_));
    TANDEM_TRY(peak->sample(kTurns * kPeakSamples));
    report_.add(peak->take("before any prompt"));
    for (const auto& [prompt, bar] : kPrompts) {
      const std::int32_t tokens = prompt;  // Clang 14 cannot capture a binding in a lambda
      log::info("prefill, {} tokens", tokens);
      Samples samples{fmt::format("prefill step, {} tokens", tokens), "ms", {}};
      for (int turn = 0; turn < kTurns; ++turn) {
        TANDEM_TRY(
            take(samples, (rounds() + kTurns - 1) / kTurns, [&] { return bench.prefill(tokens); }));
        TANDEM_TRY(peak->sample(kPeakSamples));
      }
      const Samples products = peak->take(fmt::format("by turns with {} tokens", tokens));
      report_.add(products);
      const double flops = bench.linear_flops(tokens) + bench.attention_flops(tokens);
      const double floor =
          std::max(bench.weight_bytes_read() / copy, flops / (products.median() * 1e12));
      add_over_floor("G4", fmt::format("prefill of {} tokens", tokens), samples, floor, bar);
    }
    return {};
  }

  int rounds() const { return static_cast<int>(options_.rounds); }

  const EngineSettings& settings_;
  const GpuEngineBench& options_;
  BenchReport& report_;
  const SteadyClock clock_{};
  BarSelection only_;
  ModelSpec spec_;
  DType dtype_ = DType::bf16;
};

}  // namespace

Result<int> bench_engine_on_gpu(const EngineSettings& settings, const GpuEngineBench& bench,
                                const ReportSettings& report_settings, const std::string& command) {
  BenchReport report("engine", command);
  TANDEM_TRY(GpuBench(settings, bench, report).run());
  return report.finish(report_settings);
}

}  // namespace tandem
