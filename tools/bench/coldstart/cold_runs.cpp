#include "tools/bench/coldstart/cold_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log/log.h"

namespace tandem {
namespace {

constexpr std::int32_t kBurstAdapters = 8;  // C3
constexpr std::int32_t kBurstOutput = 4;    // only the first token counts
constexpr std::int32_t kOtherAdapters = 8;  // C4: resident adapters of the other requests
constexpr std::int32_t kDiskRequests = 12;  // C5
constexpr std::int32_t kDiskPrompt = 19;
constexpr std::int32_t kExactAdapters = 8;  // C8
constexpr double kLeastEffect = 1e-2;

void append(std::vector<AnsweredRequest>& to, const AnsweredTrace& from) {
  to.insert(to.end(), from.requests.begin(), from.requests.end());
}

// The parts of the benchmark to run for one mode and link.
struct Wanted {
  bool poisson = false, bursts = false, others = false, disk = false, exact = false;

  Wanted(const ColdStartOptions& options, ColdLink link, AdapterMode mode, std::int32_t round) {
    const BarSelection& only = options.only;
    const bool native = link == ColdLink::native;
    const bool cached = keeps_all(mode);
    if (!native && cached) return;  // a cached run copies nothing, so it equals the native run
    poisson = native ? only.any("C1") || (cached && only.any("C2")) : only.any("C2");
    bursts = only.any("C3");
    others = native && mode == AdapterMode::planned && only.any("C4");
    disk = native && only.any("C5");
    exact = round == 0 && only.any("C8");
  }
  bool any() const { return poisson || bursts || others || disk || exact; }
};

// Runs the selected parts on one engine.
class Runner {
 public:
  Runner(const ColdStartOptions& options, std::string name, bool cached, std::int32_t round,
         ColdRun& run)
      : options_(options),
        name_(std::move(name)),
        cached_(cached),
        round_(static_cast<std::uint64_t>(round)),
        run_(run) {}

  Status go(ColdEngine& engine, const Wanted& wanted) {
    TANDEM_TRY(engine.warm_up(options_.rank));
    if (wanted.poisson) TANDEM_TRY(run_poisson(engine));
    if (wanted.bursts) TANDEM_TRY(run_bursts(engine));
    if (wanted.others) TANDEM_TRY(run_others(engine));
    if (wanted.disk) TANDEM_TRY(run_from_disk(engine));
    if (!wanted.exact) return {};
    say("exactness");
    if (cached_) {
      TANDEM_ASSIGN(const double effect, adapter_effect(engine, options_.rank));
      if (effect < kLeastEffect) {
        return error(StatusCode::internal,
                     "an adapter changes log-probabilities by {:.1e}: agreement would say nothing",
                     effect);
      }
      log::info("an adapter changes log-probabilities by up to {:.1e}", effect);
    }
    TANDEM_ASSIGN(run_.exact, exact_answers(engine, options_.rank));
    return {};
  }

 private:
  void say(const std::string& what) const { log::info("{}: {}", name_, what); }
  // The same in every mode and over both links.
  std::uint64_t seed(std::uint64_t what) const { return round_ * 1000 + what; }

  Status run_poisson(ColdEngine& engine) {
    say(fmt::format("{} requests at {} a second", options_.requests, options_.rate));
    TANDEM_ASSIGN(const auto names, engine.add(options_.requests, options_.rank));
    const EngineStats before = engine.engine().stats();
    TANDEM_ASSIGN(
        const AnsweredTrace answered,
        engine.run(poisson_trace(names, options_.rate, options_.lengths, seed(2)), seed(3)));
    const EngineStats after = engine.engine().stats();
    append(run_.poisson, answered);
    ColdCounts& counts = run_.counts;
    counts.workers = after.cpu_workers;
    counts.cpu_layers += after.handoff_cpu_layers - before.handoff_cpu_layers;
    counts.gpu_layers += after.handoff_gpu_layers - before.handoff_gpu_layers;
    counts.timed_out += after.handoff_timed_out - before.handoff_timed_out;
    counts.cold_steps += after.handoff_steps - before.handoff_steps;
    counts.planned_s += after.handoff_planned_seconds - before.handoff_planned_seconds;
    counts.actual_s += after.handoff_actual_seconds - before.handoff_actual_seconds;
    counts.step_s += after.step_seconds_total - before.step_seconds_total;
    counts.gap_s += after.gap_seconds_total - before.gap_seconds_total;
    return engine.clear();
  }

  Status run_bursts(ColdEngine& engine) {
    say(fmt::format("{} bursts of {}", options_.bursts, kBurstAdapters));
    std::mt19937_64 random(seed(4));
    LengthDistribution lengths = options_.lengths;
    for (std::int32_t i = 0; i < options_.bursts; ++i) {
      TANDEM_ASSIGN(const auto names, engine.add(kBurstAdapters, options_.rank));
      ArrivalTrace trace = burst_trace(names, 0, kBurstOutput);
      for (TracedRequest& request : trace) request.prompt_tokens = lengths.draw(random).first;
      TANDEM_ASSIGN(const AnsweredTrace answered, engine.run(trace, random()));
      append(run_.bursts, answered);
      TANDEM_TRY(engine.clear());
    }
    return {};
  }

  // Requests for resident adapters, mixed with requests whose adapters are cold in the first run
  // and resident in the second. Both runs have the same times and lengths.
  Status run_others(ColdEngine& engine) {
    constexpr std::int32_t kTimes = 2;  // alternating
    say("others, with cold starts and without");
    TANDEM_ASSIGN(const auto resident, engine.add(kOtherAdapters, options_.rank));
    TANDEM_TRY(engine.warm(resident));
    const std::int32_t count = std::max(1, options_.requests / kTimes);
    std::vector<std::string> asked;
    asked.reserve(static_cast<std::size_t>(count));
    for (std::int32_t i = 0; i < count; ++i) {
      asked.push_back(resident[static_cast<std::size_t>(i % kOtherAdapters)]);
    }
    for (std::uint64_t time = 0; time < kTimes; ++time) {
      TANDEM_ASSIGN(const auto cold, engine.add(count, options_.rank));
      const std::uint64_t base = 10 + 10 * time;
      const ArrivalTrace trace =
          merge_traces(poisson_trace(cold, options_.rate, options_.lengths, seed(base)),
                       poisson_trace(asked, options_.rate, options_.lengths, seed(base + 1)));
      for (std::vector<double>* samples : {&run_.others_cold, &run_.others_warm}) {
        if (samples == &run_.others_warm) TANDEM_TRY(engine.warm(cold));
        TANDEM_ASSIGN(const AnsweredTrace answered, engine.run(trace, seed(base + 2)));
        for (std::size_t i = 0; i < trace.size(); ++i) {
          const bool other =
              std::find(resident.begin(), resident.end(), trace[i].adapter) != resident.end();
          if (other) samples->push_back(answered.requests[i].tpot_s);
        }
      }
    }
    return engine.clear();
  }

  Status run_from_disk(ColdEngine& engine) {
    say("adapters on disk");
    TANDEM_ASSIGN(const auto names, engine.add_on_disk(kDiskRequests, options_.rank));
    std::uint64_t prompt = seed(200);
    for (const std::string& name : names) {
      TANDEM_ASSIGN(const AnsweredTrace answered,
                    engine.run(burst_trace({name}, kDiskPrompt, kBurstOutput), prompt++));
      const AnsweredRequest& request = answered.requests.front();
      if (!cached_ && request.tier != "disk") {
        return error(StatusCode::internal, "adapter '{}' was in tier '{}', not on disk", name,
                     request.tier);
      }
      run_.from_disk.push_back(request.ttft_s);
    }
    return engine.clear();
  }

  const ColdStartOptions& options_;
  const std::string name_;
  const bool cached_;
  const std::uint64_t round_;
  ColdRun& run_;
};

// The largest content of the host tier at any time.
std::size_t host_tier_bytes(const ColdStartOptions& options, const ColdAdapters& adapters) {
  const auto bytes = [&](std::int64_t count, std::int32_t rank) {
    return adapters.host_tier_bytes(count, rank);
  };
  std::size_t most = bytes(std::max({kBurstAdapters, kDiskRequests, kExactAdapters}), options.rank);
  if (options.only.any("C1", "C2")) most = std::max(most, bytes(options.requests, options.rank));
  if (options.only.any("C4")) {
    most = std::max(most, bytes(options.requests + 2 + kOtherAdapters, options.rank));
  }
  return most;
}

}  // namespace

Result<ColdRuns> run_cold_starts(const EngineSettings& settings, const ColdStartOptions& options,
                                 ColdAdapters& adapters) {
  const SteadyClock clock;
  ColdRuns runs;
  std::vector<AdapterMode> modes = options.modes;
  for (std::int32_t round = 0; round < options.rounds; ++round) {
    if (round > 0) std::reverse(modes.begin(), modes.end());  // the order alternates between rounds
    for (const ColdLink link : {ColdLink::native, ColdLink::slow}) {
      for (const AdapterMode mode : modes) {
        const Wanted wanted(options, link, mode, round);
        if (!wanted.any()) continue;
        EngineSettings with = settings;
        with.options.adapter_mode = mode;
        with.link_gbps = link == ColdLink::slow ? options.slow_link_gbps : settings.link_gbps;
        with.host_tier_gb = static_cast<double>(host_tier_bytes(options, adapters)) / 1e9;
        with.options.max_device_adapters =
            std::max(with.options.max_device_adapters, options.requests + kOtherAdapters + 2);
        const TimePoint start = clock.now();
        TANDEM_ASSIGN(const auto engine, ColdEngine::start(with, adapters));
        ColdRun& run = runs[{link, mode}];
        run.start_s = seconds_between(start, clock.now());
        const std::string name = fmt::format("{}, {} link", to_string(mode),
                                             link == ColdLink::native ? "native" : "slow");
        Runner runner(options, name, keeps_all(mode), round, run);
        if (const Status ran = runner.go(*engine, wanted); !ran) return ran.with_context(name);
      }
    }
  }
  return runs;
}

}  // namespace tandem
