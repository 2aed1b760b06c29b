// tandem bench route: measures a decision of each policy, and the router's cost of a request.
#include "tools/bench/bench_route.h"

#include <fmt/format.h>

#include <random>

#include "base/clock.h"
#include "base/settings/settings.h"
#include "scheduler/cluster/policies/policy.h"
#include "scheduler/cluster/prefixes/prefix_index.h"
#include "tools/bench/common/bench_report.h"
#include "tools/bench/common/command_line.h"
#include "tools/bench/relay_cost.h"
#include "tools/cli/flags/flags.h"

namespace tandem {
namespace {

const CommandInfo kInfo{
    "bench route", "[--engines N] [flags]",
    "Times each policy's choice, on one thread, among engines with random loads that have served\n"
    "similar prompts. Before that it checks that two instances of a policy choose the same "
    "engine,\n"
    "and that this engine accepts requests. Then it sends streams through a router to two stub\n"
    "engines over loopback, and measures the router's CPU time and the delay that it adds.",
    "  tandem bench route --engines 1000"};

constexpr std::uint64_t kSeed = 1;
constexpr double kBarUs = 50;
constexpr double kRelayBarUs = 400;
constexpr double kDelayBarUs = 500;

struct RouteBenchSettings {
  std::int64_t engines = 1000;
  std::int64_t decisions = 2000;
  RelayLoad relay;
};

std::vector<EngineView> loaded_engines(std::int64_t count, std::mt19937_64& random) {
  std::vector<EngineView> engines;
  for (std::int64_t i = 0; i < count; ++i) {
    EngineView engine;
    engine.costs = {.step_s = 32e-3, .rank_s = 3.6e-6, .prefill_token_s = 0.2e-3};
    const auto requests = static_cast<std::int64_t>(random() % 30);
    const auto rank = static_cast<std::int32_t>(8U << (random() % 4));
    engine.running = {.requests = requests,
                      .rank_sum = requests * rank,
                      .rank_max = rank,
                      .context_tokens = 100 * requests};
    engine.max_requests = 32;
    engine.kv_tokens = 12'000;
    engine.kv_free_tokens = engine.kv_tokens - engine.running.context_tokens;
    engine.adapter_free_bytes = std::int64_t{1} << 31;
    engine.free_workers = 12;
    engines.push_back(engine);
  }
  return engines;
}

// Number of documents. A prompt has 4 KB that all prompts share, then 4 KB of one of these.
constexpr std::int64_t kDocuments = 64;

std::vector<PromptBlock> prompt_about(std::int64_t document) {
  constexpr std::size_t kBytes = 4096;
  PromptHasher hasher(kSeed, "base");
  hasher.add(std::string(kBytes, 's'));
  hasher.add(fmt::format("{:>{}}", document, kBytes));
  return hasher.take();
}

Result<int> bench_route(const RouteBenchSettings& settings, const ReportSettings& reporting,
                        const std::string& command) {
  BenchReport report("route", command);
  report.fact("engines", settings.engines);
  const SteadyClock clock;
  std::vector<std::vector<PromptBlock>> prompts;
  for (std::int64_t i = 0; i < kDocuments; ++i) prompts.push_back(prompt_about(i));
  PrefixIndex sent;
  for (std::int64_t i = 0; i < settings.engines; ++i) {
    const EngineIndex engine(static_cast<std::int32_t>(i));
    sent.set_room(engine, std::int64_t{1} << 40);
    (void)sent.sent(engine, prompts[static_cast<std::size_t>(i % kDocuments)], 2048);
  }
  for (const std::string& name : policy_names()) {
    std::mt19937_64 random(kSeed);
    const std::vector<EngineView> engines = loaded_engines(settings.engines, random);
    TANDEM_ASSIGN(const auto policy, make_policy(name, {}));
    TANDEM_ASSIGN(const auto twin, make_policy(name, {}));
    Samples samples{name, "us", {}};
    for (std::int64_t i = 0; i < settings.decisions; ++i) {
      // Eight engines have the adapter already, as with a popular one.
      std::vector<AdapterHold> holds;
      for (int hold = 0; hold < 8; ++hold) {
        const std::uint64_t engine = random() % engines.size();
        holds.push_back({EngineIndex(static_cast<std::int32_t>(engine)), AdapterTier::resident, 1});
      }
      RouteRequest request;
      request.adapter = ClusterAdapterId(static_cast<std::int32_t>(random() % 10'000));
      request.rank = static_cast<std::int32_t>(8U << (random() % 4));
      request.adapter_bytes = std::int64_t{1'572'864} * request.rank;
      request.prompt_tokens = 2048;
      request.expected_tokens = 58;
      request.slo_token_s = 48e-3;
      request.holds = holds;
      const std::vector<PromptBlock>& prompt = prompts[random() % prompts.size()];
      request.prefixes = sent.find(prompt);
      const EngineIndex expected = twin->choose(request, engines).engine;
      const TimePoint begin = clock.now();
      request.prefixes = sent.find(prompt);
      const Decision decision = policy->choose(request, engines);
      samples.values.push_back(seconds_between(begin, clock.now()) * 1e6);
      if (decision.engine != expected || !decision.chosen()) {
        return error(StatusCode::internal, "{} does not choose the same twice", name);
      }
    }
    report.add({name, fmt::format("one decision over {} engines, median", settings.engines),
                samples.median(), "us", Must::be_at_most, kBarUs});
    report.add(samples);
  }
  if (settings.relay.requests > 0) {
    TANDEM_ASSIGN(const RelayCost cost, measure_relay(settings.relay));
    report.add({"relay",
                fmt::format("the router's CPU for a request with {} streamed tokens",
                            settings.relay.tokens),
                cost.cpu_us, "us", Must::be_at_most, kRelayBarUs});
    report.add({"delay", "what the router adds to a streamed token's way, median",
                cost.relayed.event_us - cost.direct.event_us, "us", Must::be_at_most, kDelayBarUs});
    report.add({"delay_first", "what it adds to the first event, median",
                cost.relayed.first_event_us - cost.direct.first_event_us, "us", Must::be_at_most,
                kDelayBarUs});
    report.fact("relay streams at once", settings.relay.concurrent);
    report.fact("relay requests/s", cost.requests_per_s);
    report.fact("relay token us, routed", cost.relayed.event_us);
    report.fact("relay token us, direct", cost.direct.event_us);
    report.fact("relay first event us, routed", cost.relayed.first_event_us);
    report.fact("relay first event us, direct", cost.direct.first_event_us);
    report.fact("relay memory MiB", cost.memory_mib);
    report.fact("relay memory MiB, grown since the first round", cost.grown_mib);
  }
  return report.finish(reporting);
}

}  // namespace

int run_bench_route(const std::vector<std::string>& args) {
  RouteBenchSettings settings;
  ReportSettings reporting;
  SettingsTable table;
  add_report_settings(table, reporting);
  table.group("Benchmark");
  table.add(settings.engines, "engines", "number of engines to choose among")
      .range(1, 100'000)
      .flag_only();
  table.add(settings.decisions, "decisions", "timed decisions of each policy")
      .range(1, 1'000'000)
      .flag_only();
  table.add(settings.relay.requests, "requests", "requests sent through the router; 0: none")
      .range(0, 10'000'000)
      .flag_only();
  table.add(settings.relay.concurrent, "concurrent", "requests in progress at once")
      .range(1, 2000)
      .flag_only();
  table.add(settings.relay.tokens, "tokens", "tokens of each answer").range(1, 100'000).flag_only();
  if (const auto status = read_settings(kInfo, table, args)) return *status;
  const Result<int> status = bench_route(settings, reporting, bench_command_line("route", args));
  return status ? *status : report_failure(kInfo, status.status());
}

}  // namespace tandem
