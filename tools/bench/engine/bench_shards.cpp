#include "tools/bench/engine/bench_shards.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/log/log.h"
#include "engine/loader/shard.h"
#include "engine/model/spec/spread.h"
#include "gpu/cuda/copy_speed.h"
#include "tools/bench/coldstart/exactness.h"
#include "tools/bench/common/bench_selection.h"
#include "tools/bench/engine/bench_all_reduce.h"
#include "tools/bench/engine/bench_shards_serving.h"
#include "tools/bench/measure/bench_adapters.h"
#include "tools/bench/measure/bench_executor.h"
#include "tools/bench/measure/bench_peaks.h"
#include "tools/cli/machine.h"
#include "tools/cli/progress.h"
#include "tools/setup/engine_setup.h"
#include "tools/setup/gpus.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 7> kShardBars = {"T1", "T2", "T3", "T4", "T5", "T6", "T7"};
constexpr std::int32_t kMostSequences = 32;
constexpr int kQkvSet = 0;
constexpr int kAll7Set = 1;

// Devices and the steps on them: N devices that share the model, or one.
struct StepSide {
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<ExecutorBench> bench;
};

// A timed step and its samples.
struct StepCase {
  ExecutorBench* bench;
  std::int32_t batch;
  int set;
  LoraSharding sharding;
  Samples samples;
};

class ShardBench {
 public:
  ShardBench(const EngineSettings& settings, const ShardBenchOptions& options, BenchReport& report)
      : settings_(settings), options_(options), report_(report) {}

  Status run() {
    TANDEM_ASSIGN(only_,
                  BarSelection::parse(options_.only, {kShardBars.begin(), kShardBars.end()}));
    TANDEM_ASSIGN(spec_, find_model_spec(settings_.model));
    TANDEM_TRY(check_shards(spread_over(spec_, num_devices()), num_devices()));
    on_gpu_ = is_for_gpu(settings_);
    TANDEM_ASSIGN(dtype_, choose_dtype(settings_, spec_, on_gpu_));
    report_.fact("model", fmt::format("{}, {}, dummy weights in {}", settings_.model,
                                      to_string(dtype_), settings_.weights));
    report_.fact("devices that share it", num_devices());
    if (!on_gpu_) {
      report_.fact("bars", "T1 to T6 are judged on GPUs alone; here their cases run, no more");
    }
    if (only_.any("T1", "T2", "T4")) TANDEM_TRY(run_steps());
    if (only_.any("T3")) {
      TANDEM_TRY(measure_all_reduce(settings_, on_gpu_, dtype_, static_cast<int>(options_.rounds),
                                    report_));
    }
    const ShardServing serving{settings_, spec_, dtype_, on_gpu_};
    if (only_.any("T5")) TANDEM_TRY(measure_sharded_cold_starts(serving, report_));
    if (only_.any("T6")) TANDEM_TRY(measure_sharded_throughput(serving, report_));
    if (only_.any("T7")) TANDEM_TRY(compare_sharded_answers(serving, report_));
    return {};
  }

 private:
  std::int32_t num_devices() const { return static_cast<std::int32_t>(settings_.tensor_parallel); }

  // Prepares one device, or all that share the model.
  Status make_side(std::int64_t num_devices, const ExecutorBenchOptions& options, StepSide& side) {
    const EngineSettings settings = num_devices == 1 ? on_first_device(settings_) : settings_;
    TANDEM_ASSIGN(side.devices, make_devices(settings));
    std::vector<Device*> devices;
    for (const auto& device : side.devices) devices.push_back(device.get());
    Progress progress(
        fmt::format("making weights for {} device{}", num_devices, num_devices == 1 ? "" : "s"),
        STDERR_FILENO, Progress::is_terminal(STDERR_FILENO), clock_);
    TANDEM_ASSIGN(side.bench, ExecutorBench::create(devices, spec_, dtype_, options,
                                                    [&](std::size_t done, std::size_t total) {
                                                      progress.update(done, total);
                                                    }));
    progress.finish();
    return {};
  }

  Status run_steps() {
    ExecutorBenchOptions options;
    options.weights = parse_dummy_format(settings_.weights).value();
    options.batch = kMostSequences;
    options.context =
        static_cast<std::int32_t>(std::min(options_.context, spec_.max_position_embeddings - 1));
    options.prefill_tokens = options.context;
    if (!on_gpu_) options.steps_per_sample = 1;
    StepSide one;
    StepSide many;
    TANDEM_ASSIGN(const double before, copy_speed());
    if (only_.any("T1")) TANDEM_TRY(make_side(1, options, one));
    if (only_.any("T4")) {
      options.sets = {{"rank 64 qkv", 64, qkv_modules(), kMostSequences},
                      {"rank 16 all7", 16, all_modules(), kMostSequences}};
    }
    TANDEM_TRY(make_side(num_devices(), options, many));
    report_.fact("device", fmt::format("{} x {}", num_devices(), many.devices[0]->info().name));
    if (one.bench != nullptr) TANDEM_TRY(check_against_one(*one.bench, *many.bench));

    if (only_.any("T4")) {
      for (const int set : {kQkvSet, kAll7Set}) TANDEM_TRY(check_shardings(*many.bench, set));
    }

    std::vector<StepCase> cases;
    const auto add = [&](ExecutorBench* bench, std::int32_t batch, int set, LoraSharding sharding) {
      const std::string with =
          set < 0
              ? ""
              : fmt::format(", {} x {}, {}", batch,
                            options.sets[static_cast<std::size_t>(set)].name, to_string(sharding));
      cases.push_back({bench,
                       batch,
                       set,
                       sharding,
                       {fmt::format("decode step, {} device{}, batch {}{}",
                                    bench == one.bench.get() ? 1 : num_devices(),
                                    bench == one.bench.get() ? "" : "s", batch, with),
                        "ms",
                        {}}});
    };
    for (const std::int32_t batch : {1, 8, kMostSequences}) {
      if (one.bench != nullptr && batch != 8) {
        add(one.bench.get(), batch, -1, LoraSharding::automatic);
      }
      add(many.bench.get(), batch, -1, LoraSharding::automatic);
    }
    for (int set = 0; set < static_cast<int>(options.sets.size()); ++set) {
      for (const LoraSharding sharding : kLoraShardings) {
        add(many.bench.get(), kMostSequences, set, sharding);
      }
    }
    log::info("decode steps, {} rounds", options_.rounds);
    // The first two rounds warm up.
    for (std::int64_t round = -2; round < options_.rounds; ++round) {
      for (StepCase& each : cases) {
        each.bench->use(each.sharding);
        TANDEM_ASSIGN(const double seconds, each.bench->decode(each.batch, each.set));
        if (round >= 0) each.samples.values.push_back(seconds * 1e3);
      }
    }
    for (const StepCase& each : cases) report_.add(each.samples);
    const auto ms = [&](const StepSide& side, std::int32_t batch, int set,
                        LoraSharding sharding = LoraSharding::automatic) {
      const auto found = std::ranges::find_if(cases, [&](const StepCase& each) {
        return each.bench == side.bench.get() && each.batch == batch && each.set == set &&
               each.sharding == sharding;
      });
      return found->samples.median();
    };
    if (only_.any("T1")) {
      for (const std::int32_t batch : {1, kMostSequences}) {
        add_bar("T1",
                fmt::format("decode step, batch {}: {} devices over one", batch, num_devices()),
                ms(many, batch, -1) / ms(one, batch, -1), num_devices() >= 4 ? 0.40 : 0.62,
                num_devices() == 2 || num_devices() == 4);
      }
    }
    if (only_.any("T2")) {
      // The better of two measurements counts, because a floor that is too high would improve the
      // figures that are relative to it.
      TANDEM_ASSIGN(const double after, copy_speed());
      const double copy = std::max(before, after);
      report_.fact("one device's copy speed, twice",
                   fmt::format("{:.1f} and {:.1f} GB/s", before / 1e9, after / 1e9));
      for (const std::int32_t batch : {1, 8, kMostSequences}) {
        const double floor_ms =
            many.bench->decode_bytes(batch, ExecutorBench::kNoAdapters) / copy * 1e3;
        add_bar("T2",
                fmt::format("decode step, batch {}, over the floor of {:.2f} ms", batch, floor_ms),
                ms(many, batch, -1) / floor_ms, 1.30, true);
      }
    }
    if (only_.any("T4")) {
      const double base = ms(many, kMostSequences, -1);
      for (const int set : {kQkvSet, kAll7Set}) {
        const std::string& name = options.sets[static_cast<std::size_t>(set)].name;
        const double ours = ms(many, kMostSequences, set);
        add_bar("T4", fmt::format("32 distinct adapters over none, {}", name), ours / base,
                set == kQkvSet ? 1.10 : 1.20, true);
        add_bar("T4", fmt::format("{}: over S-LoRA's sharding", name),
                ours / ms(many, kMostSequences, set, LoraSharding::s_lora), 1.02, true);
        add_bar("T4", fmt::format("{}: over full replication", name),
                ours / ms(many, kMostSequences, set, LoraSharding::replicated), 1.02, true);
      }
    }
    return {};
  }

  // Checks the timed steps against those of one device.
  Status check_against_one(ExecutorBench& one, ExecutorBench& many) {
    TANDEM_ASSIGN(const auto expected, one.sampled(kMostSequences, ExecutorBench::kNoAdapters));
    TANDEM_ASSIGN(const auto got, many.sampled(kMostSequences, ExecutorBench::kNoAdapters));
    return compare("as one device's", expected, got);
  }

  // Checks that all ways of sharding adapters give the same result, and reports how much it differs
  // from the base model's.
  Status check_shardings(ExecutorBench& bench, int set) {
    TANDEM_ASSIGN(const auto base, bench.sampled(kMostSequences, ExecutorBench::kNoAdapters));
    bench.use(LoraSharding::replicated);
    TANDEM_ASSIGN(const auto expected, bench.sampled(kMostSequences, set));
    report_.fact(fmt::format("set {} changes log-probabilities by up to", set + 1),
                 fmt::format("{:.1e}", apart(base, expected)));
    for (const LoraSharding sharding : {LoraSharding::gathered, LoraSharding::s_lora}) {
      bench.use(sharding);
      TANDEM_ASSIGN(const auto got, bench.sampled(kMostSequences, set));
      TANDEM_TRY(compare(fmt::format("set {}, {} as replicated", set + 1, to_string(sharding)),
                         expected, got));
    }
    return {};
  }

  // The largest difference of log-probabilities at any position, even if the tokens differ: at a
  // near-tie both are the likeliest.
  static double apart(const std::vector<SampledToken>& expected,
                      const std::vector<SampledToken>& got) {
    double worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto here = static_cast<double>(std::abs(got[i].logprob - expected[i].logprob));
      worst = std::isfinite(here) ? std::max(worst, here) : HUGE_VAL;
    }
    return worst;
  }

  Status compare(const std::string& what, const std::vector<SampledToken>& expected,
                 const std::vector<SampledToken>& got) {
    const double worst = apart(expected, got);
    report_.fact(fmt::format("checked: log-probabilities {}", what),
                 fmt::format("within {:.1e}", worst));
    if (worst <= logprob_tolerance(dtype_)) return {};
    return error(StatusCode::internal, "log-probabilities are not {}, by {:.2e}: nothing was timed",
                 what, worst);
  }

  // Bytes per second.
  Result<double> copy_speed() {
    if (!only_.any("T2")) return 0.0;
    if (on_gpu_) {
      return measure_cuda_copy_speed(first_gpu(settings_));
    }
    constexpr std::size_t kBytes = std::size_t{256} << 20;
    TANDEM_ASSIGN(const HostDeviceOptions host, choose_host_options(settings_));
    TANDEM_ASSIGN(const auto memory, MemorySpeed::create(kBytes, host.num_threads, host.cpus));
    return memory->read_pass();
  }

  // `has_bar`: there is a bar for this number of devices.
  void add_bar(const char* id, const std::string& what, double value, double bar, bool has_bar) {
    report_.add({id, what, value, "", Must::be_at_most, bar, on_gpu_ && has_bar});
  }

  const EngineSettings& settings_;
  const ShardBenchOptions& options_;
  BenchReport& report_;
  const SteadyClock clock_{};
  BarSelection only_;
  ModelSpec spec_;
  DType dtype_ = DType::bf16;
  bool on_gpu_ = false;
};

}  // namespace

Result<int> bench_shards(const EngineSettings& settings, const ShardBenchOptions& options,
                         const ReportSettings& report_settings, const std::string& command) {
  BenchReport report("engine", command);
  TANDEM_TRY(ShardBench(settings, options, report).run());
  return report.finish(report_settings);
}

}  // namespace tandem
