// tandem bench coldstart: requests for adapters that are not on the device, served in every adapter
// mode for comparison.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>
#include <sstream>

#include "base/limits/bytes_text.h"
#include "base/log/log.h"
#include "base/parse_number.h"
#include "base/threads/thread_cpus.h"
#include "gpu/cuda/cuda_device.h"
#include "tools/bench/coldstart/bench_coldstart.h"
#include "tools/bench/coldstart/cold_report.h"
#include "tools/bench/coldstart/cold_runs.h"
#include "tools/bench/coldstart/cold_sweep.h"
#include "tools/bench/coldstart/cost_healing.h"
#include "tools/bench/coldstart/sweep_report.h"
#include "tools/bench/common/bench_report.h"
#include "tools/bench/common/command_line.h"
#include "tools/bench/measure/bench_adapters.h"
#include "tools/bench/measure/bench_handoff.h"
#include "tools/bench/measure/bench_worker.h"
#include "tools/cli/flags/flags.h"
#include "tools/setup/engine_setup.h"

namespace tandem {
namespace {

const CommandInfo kInfo{"bench coldstart", "[--model DIR|SHAPE] [flags]",
                        "Serves requests whose adapters are cold, the same ones in every adapter "
                        "mode: at random times,\n"
                        "in bursts, over the full link and a slowed one, from the host tier and "
                        "from disk. Weights are\n"
                        "random. Prints what each mode costs over `cached`.",
                        "  tandem bench coldstart --json cold.json --html cold.html\n"
                        "  tandem bench coldstart --only C1,C3 --modes cached,pipelined,planned"};

constexpr std::array<std::string_view, 10> kBars = {"C1", "C2", "C3", "C4", "C5",
                                                    "C6", "C7", "C8", "N1", "N2"};
// In the order of the runs.
constexpr std::array kModes = {AdapterMode::cached, AdapterMode::planned, AdapterMode::pipelined,
                               AdapterMode::cpu_assist, AdapterMode::on_demand};
static_assert(kModes.size() == kAdapterModes.size());

struct ColdStartSettings {
  std::string only;
  std::string modes;
  std::int64_t requests = 0;  // 0: the device's default
  double rate = 0;            // 0: the device's default
  double seconds = 0;         // 0: limited by `requests`
  std::string lengths = "alpaca";
  std::int64_t rank = 64;
  double slow_gbps = 10;
  std::int64_t bursts = 8;
  std::int64_t rounds = 1;
  bool why = false;
  std::string links = "0,10";
  std::string sweep_adapters = "1,8", sweep_tokens = "8,64,256", sweep_ranks = "64";
  std::string tiers = "host";
  std::int64_t sweep_rounds = 3;
};

// Parses comma-separated numbers from `least` to `most`.
template <typename T>
Result<std::vector<T>> parse_numbers(const char* key, const std::string& text, T least, T most) {
  std::vector<T> numbers;
  std::stringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto value = parse_number<T>(part);
    if (!value || *value < least || *value > most) {
      return invalid("{}: '{}' is no number from {} to {}; write them as in 1,8", key, part, least,
                     most);
    }
    numbers.push_back(*value);
  }
  if (numbers.empty()) return invalid("{}: names none; write them as in 1,8", key);
  return numbers;
}

Result<SweepOptions> parse_sweep(const ColdStartSettings& settings) {
  SweepOptions sweep;
  TANDEM_ASSIGN(sweep.links_gbps, parse_numbers<double>("links", settings.links, 0, 1000));
  TANDEM_ASSIGN(sweep.adapters,
                parse_numbers<std::int64_t>("sweep_adapters", settings.sweep_adapters, 1, 64));
  TANDEM_ASSIGN(sweep.tokens,
                parse_numbers<std::int64_t>("sweep_tokens", settings.sweep_tokens, 1, 1024));
  TANDEM_ASSIGN(sweep.ranks,
                parse_numbers<std::int64_t>("sweep_ranks", settings.sweep_ranks, 1, 512));
  sweep.tiers.clear();
  std::stringstream tiers(settings.tiers);
  for (std::string tier; std::getline(tiers, tier, ',');) {
    if (tier != "host" && tier != "disk")
      return invalid("tiers: '{}' is neither host nor disk", tier);
    sweep.tiers.push_back(tier);
  }
  if (sweep.tiers.empty()) return invalid("tiers: names none; there are host and disk");
  sweep.rounds = static_cast<std::int32_t>(settings.sweep_rounds);
  return sweep;
}

Result<std::vector<AdapterMode>> parse_modes(const std::string& text) {
  std::vector<AdapterMode> chosen;
  std::stringstream names(text);
  for (std::string name; std::getline(names, name, ',');) {
    const std::optional<AdapterMode> mode = parse_adapter_mode(name);
    if (!mode) {
      std::vector<std::string_view> known;
      known.reserve(std::size(kModes));
      for (const AdapterMode each : kModes) known.push_back(to_string(each));
      return invalid("modes: '{}' is none of {}", name, fmt::join(known, ", "));
    }
    chosen.push_back(*mode);
  }
  std::vector<AdapterMode> ordered;
  for (const AdapterMode mode : kModes) {
    if (chosen.empty() || std::find(chosen.begin(), chosen.end(), mode) != chosen.end()) {
      ordered.push_back(mode);
    }
  }
  return ordered;
}

Result<int> bench_coldstart(EngineSettings engine, const ColdStartSettings& settings,
                            const ReportSettings& report_settings, const std::string& command) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  ColdStartOptions options;
  TANDEM_ASSIGN(options.only, BarSelection::parse(settings.only, {kBars.begin(), kBars.end()}));
  TANDEM_ASSIGN(options.modes, parse_modes(settings.modes));
  TANDEM_ASSIGN(options.lengths, LengthDistribution::parse(settings.lengths));
  options.slow_link_gbps = settings.slow_gbps;
  options.rate = settings.rate;
  options.requests =
      static_cast<std::int32_t>(settings.seconds > 0 ? std::ceil(settings.seconds * settings.rate)
                                                     : static_cast<double>(settings.requests));
  options.rank = static_cast<std::int32_t>(settings.rank);
  options.bursts = static_cast<std::int32_t>(settings.bursts);
  options.rounds = static_cast<std::int32_t>(settings.rounds);
  TANDEM_ASSIGN(options.sweep, parse_sweep(settings));

  TANDEM_ASSIGN(const ModelSpec spec, find_model_spec(engine.model));
  TANDEM_ASSIGN(const DType dtype, choose_dtype(engine, spec, is_for_gpu(engine)));
  if (engine.max_model_len == 0) {
    engine.max_model_len = std::min<std::int64_t>(2048, spec.max_position_embeddings);
  }
  engine.options.max_lora_rank =
      std::max({128, options.rank,
                static_cast<std::int32_t>(*std::ranges::max_element(options.sweep.ranks))});
  engine.options.max_adapters = 1 << 20;
  ColdAdapters adapters(spec, dtype);

  BenchReport report("coldstart", command);
  report.fact("model", fmt::format("{}, {}, dummy weights", engine.model, to_string(dtype)));
  if (engine.tensor_parallel > 1) report.fact("devices that share it", engine.tensor_parallel);
  report.fact("adapters", fmt::format("rank {} of q, k, v: {}", options.rank,
                                      bytes_text(static_cast<double>(adapter_bytes(
                                          spec, dtype, {"", options.rank, qkv_modules()})))));
  report.fact("requests",
              fmt::format("{} at {:g} a second, lengths {}, {} round(s)", options.requests,
                          options.rate, settings.lengths, options.rounds));
  if (options.only.any("C6")) {
    log::info("a handoff's round trips");
    EngineSettings of_one = engine;  // workers get x from the first device
    of_one.tensor_parallel = 1;
    TANDEM_ASSIGN(const auto device, make_device(of_one));
    TANDEM_TRY(measure_handoff(*device, report));
  }
  if (options.only.any("C7")) {
    log::info("deltas of CPU workers");
    TANDEM_TRY(measure_workers_bar(cpus_of_thread(), dtype, report));
  }
  {
    TANDEM_ASSIGN(const ColdRuns runs, run_cold_starts(engine, options, adapters));
    report_cold_starts(runs, options, logprob_tolerance(dtype), report);
  }
  if (options.only.any("N1")) {
    TANDEM_ASSIGN(const std::vector<SweepCell> cells,
                  run_sweep(engine, options.sweep, options.modes, adapters));
    report_sweep(cells, options.modes, report);
  }
  if (options.only.any("N2")) {
    TANDEM_ASSIGN(const std::vector<CostHealing> healings, run_healing(engine, options, adapters));
    report_healing(healings, report);
  }
  report.fact("seconds", std::round(seconds_between(begin, clock.now()) * 10) / 10);
  return report.finish(report_settings);
}

}  // namespace

int run_bench_coldstart(const std::vector<std::string>& args) {
  EngineSettings engine;
  engine.model = "auto";
  engine.load_format = "dummy";
  engine.options.max_num_seqs = 64;
  engine.options.max_num_batched_tokens = 2048;
  ColdStartSettings bench;
  ReportSettings report;
  ServerSettings server;
  SettingsTable table;
  add_report_settings(table, report);
  table.group("Benchmark");
  table.add(bench.only, "only", "only these bars, as in C1,C3").meta("IDS").flag_only();
  table
      .add(bench.modes, "modes",
           "only these adapter modes, as in cached,planned; bars need these two")
      .meta("MODES")
      .flag_only();
  table
      .add(
          bench.requests, "requests",
          "requests of each mode, at random times, each with a new adapter; 0: 120 on a GPU, 12 on "
          "the host")
      .range(0, 100000)
      .flag_only();
  table
      .add(bench.seconds, "seconds",
           "length of the load in seconds, in place of --requests; 0: --requests counts")
      .range(0, 86400)
      .flag_only();
  table.add(bench.rate, "rate", "requests a second; 0: 9 on a GPU, 0.5 on the host")
      .range(0, 100000)
      .flag_only();
  table
      .add(bench.lengths, "lengths",
           "lengths of prompts and answers: alpaca, sharegpt, uniform[LO,HI], or a file with lines "
           "PROMPT ANSWER")
      .meta("LENGTHS")
      .flag_only();
  table.add(bench.rank, "rank", "rank of the adapters of q, k and v").range(1, 512).flag_only();
  table.add(bench.slow_gbps, "slow_gbps", "gigabytes a second of the slow link")
      .range(0.001, 1000)
      .flag_only();
  table.add(bench.bursts, "bursts", "bursts of 8 cold adapters each").range(1, 1000).flag_only();
  table.add(bench.rounds, "rounds", "repetitions of all measurements, each with other seeds")
      .range(1, 100)
      .flag_only();
  table
      .add(bench.why, "why",
           "print on standard error, for every step with rows for CPU workers, the planned and the "
           "measured time of each layer")
      .flag_only();
  table.group("Sweep (N1): bursts, in all modes alternately");
  table.add(bench.links, "links", "gigabytes a second of the link; 0: full speed")
      .meta("LIST")
      .flag_only();
  table.add(bench.sweep_adapters, "sweep_adapters", "adapters requested at once")
      .meta("LIST")
      .flag_only();
  table.add(bench.sweep_tokens, "sweep_tokens", "tokens of each prompt").meta("LIST").flag_only();
  table.add(bench.sweep_ranks, "sweep_ranks", "ranks of the adapters").meta("LIST").flag_only();
  table.add(bench.tiers, "tiers", "tiers that adapters start from: host, disk")
      .meta("LIST")
      .flag_only();
  table
      .add(bench.sweep_rounds, "sweep_rounds", "rounds of each cell, after one that does not count")
      .range(1, 100)
      .flag_only();
  add_engine_settings(table, engine, server, {.handoff = true, .batching = true});
  if (const auto status = read_settings(kInfo, table, args)) return *status;
  set_up_log(engine.log);
  if (bench.why) log::set_level(log::Level::debug);
  const bool gpu = is_for_gpu(engine);
  if (engine.model == "auto") engine.model = gpu ? "llama-2-7b" : "llama-3.2-1b";
  if (bench.requests == 0) bench.requests = gpu ? 120 : 12;
  if (bench.rate == 0) bench.rate = gpu ? 9 : 0.5;
  const Result<int> status =
      bench_coldstart(engine, bench, report, bench_command_line("coldstart", args));
  return status ? *status : report_failure(kInfo, status.status());
}

}  // namespace tandem
