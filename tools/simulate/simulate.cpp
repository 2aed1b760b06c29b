// tandem simulate: simulates a cluster with the same requests under each policy.
#include "tools/simulate/simulate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "base/clock.h"
#include "base/file/file.h"
#include "base/parse_number.h"
#include "base/settings/settings.h"
#include "scheduler/cluster/policies/policy.h"
#include "scheduler/cluster/simulator/azure_trace.h"
#include "scheduler/cluster/simulator/popularity.h"
#include "scheduler/cluster/simulator/recorded_requests.h"
#include "scheduler/cluster/simulator/simulation.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/progress.h"
#include "tools/simulate/recorded_cluster.h"
#include "tools/simulate/simulate_report.h"

namespace tandem {
namespace {

const CommandInfo kInfo{
    "simulate", "[--compare all|NAME,...] [flags]",
    "Compares routing policies: simulates a cluster of engines that serves the same requests "
    "under\n"
    "each policy, and prints times to the first token, times per token, latency and SLO "
    "attainment.\n"
    "The policies are the router's own; the times of steps and loads come from cost models.\n"
    "docs/simulate.md describes the model and the sources of its figures. Without flags it "
    "simulates\n"
    "the CaraServe paper's cluster with cold starts.",
    "  tandem simulate --compare all --engines 60 --adapters 40000 --rps 340 --json FILE\n"
    "  tandem simulate --cold-start cached --batching separate    # as in the paper's figure 19\n"
    "  tandem simulate --load 0.85 --shift 0.5 --html FILE        # a change of popularity\n"
    "  tandem simulate --arrivals trace --trace FILE --compare rank_aware,tandem\n"
    "  tandem simulate --stats FILE --requests FILE --engines 3   # your own cluster"};

// The trace of 100,000 functions for a day has about 300 MB.
constexpr std::uint64_t kMaxTraceBytes = std::uint64_t{2} << 30;
constexpr std::int32_t kMaxTraceMinutes = 1440;
constexpr std::uint64_t kMaxStatsBytes = std::uint64_t{64} << 20;

struct SimulateSettings {
  SimulationOptions options;  // without what the texts below say
  std::string compare = "all";
  std::string machine = "a10";
  std::string stats;
  std::string kernel = "bgmv";
  std::string cold_start = "cpu_assist";
  std::string batching = "mixed";
  double load = 0;
  std::string trace;
  std::string requests;
  std::string write_trace;
  std::string ranks = "8,16,32,64";
  std::string json;
  std::string html;
};

void add_settings(SettingsTable& table, SimulateSettings& s) {
  SimulationOptions& o = s.options;
  WorkloadOptions& w = o.workload;
  const auto add = [&](SettingsMember member, const char* key, const char* help) -> SettingsField& {
    return table.add(std::move(member), key, help).flag_only();
  };
  table.group("Policies and engines");
  add(s.compare, "compare", "policies to compare: all, or names separated by commas").meta("NAMES");
  add(o.engines, "engines", "number of engines in the cluster").range(1, 10'000);
  add(s.machine, "machine", "machine that each engine runs on").choices(sim_machine_names());
  add(s.stats, "stats", "answer of an idle engine's GET /v1/stats; replaces --machine")
      .meta("FILE");
  add(s.kernel, "kernel",
      "LoRA kernel; bgmv: padded to the largest rank of the batch; mbgmv: not padded")
      .choices({"bgmv", "mbgmv"});
  add(s.cold_start, "cold_start",
      "how a request starts whose adapter is cold; cached: no adapter is cold")
      .choices({"cached", "on_demand", "async", "cpu_assist"});
  add(s.batching, "batching",
      "mixed: prompts share steps with decode; separate: prompts have steps of their own")
      .choices({"mixed", "separate"});
  add(o.line.adapter_clusters, "adapter_clusters", "most distinct adapters in a batch; 0: no limit")
      .range(0, 4096);
  add(o.line.ttft_deadline_s, "ttft_deadline_s",
      "deadline of the first token; a request that would miss it is dropped before it starts; "
      "0: none")
      .range(0, 3600);
  add(o.line.newest_first, "newest_first",
      "begin the newest waiting request first, not the oldest");
  add(o.slo_factor, "slo_factor",
      "SLO: time per token, as a multiple of that of a request served alone")
      .range(0.01, 1000);
  add(o.satisfied_ttft_s, "satisfied_ttft_s", "TTFT at which user satisfaction reaches zero")
      .range(0.001, 3600);
  table.group("Requests");
  add(w.arrivals, "arrivals", "arrival process")
      .choices({"poisson", "gamma", "rise_and_fall", "trace"});
  add(w.requests_per_s, "rps", "requests a second; a trace is scaled to this rate")
      .range(0.001, 1e6);
  add(s.load, "load", "arrival rate as a share of the cluster's capacity; replaces --rps")
      .range(0, 10);
  add(w.cv, "cv", "coefficient of variation of the gaps between gamma arrivals").range(0.1, 30);
  add(s.trace, "trace", "calls by function and minute, in the format of the Azure Functions traces")
      .meta("FILE");
  add(s.requests, "requests",
      "recorded requests to replay, one JSON object a line (docs/simulate.md)")
      .meta("FILE");
  add(s.write_trace, "write_trace", "write a trace with this popularity and rate, and stop")
      .meta("FILE");
  add(w.duration_s, "duration_s", "length of the period in which requests arrive").range(1, 1e6);
  add(o.warmup_s, "warmup_s", "period at the start whose requests do not count").range(0, 1e6);
  add(w.adapters, "adapters", "number of adapters; with --trace its functions are the adapters")
      .range(1, 2'000'000);
  add(w.popularity, "popularity", "distribution of requests over adapters")
      .choices({"azure", "zipf", "uniform"});
  add(w.zipf_exponent, "zipf_exponent", "exponent of zipf").range(0, 10);
  add(w.shift_at, "shift", "share of the time after which other adapters become popular; 0: never")
      .range(0, 0.99);
  add(w.lengths, "lengths", "lengths of prompts and answers")
      .choices({"alpaca", "sharegpt", "arena", "uniform"});
  add(s.ranks, "ranks", "ranks of adapters, all equally frequent").meta("N,...");
  add(w.prefixes, "prefixes",
      "number of texts that the prompts of one adapter begin with, all equally frequent; 0: none")
      .range(0, 1'000'000);
  add(w.prefix_tokens, "prefix_tokens", "length of each of these texts").range(1, 1'000'000);
  add(o.tell_prefixes, "tell_prefixes", "tell policies which engines each text was sent to");
  add(w.seed, "seed", "seed of the requests and of random policies").at_least(0);
  table.group("Report");
  add(s.json, "json", "write all figures to this file").meta("FILE");
  add(s.html, "html", "write a page with figures and plots to this file").meta("FILE");
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else if (c != ' ') {
      parts.back() += c;
    }
  }
  return parts;
}

Result<std::vector<std::int32_t>> parse_ranks(const std::string& text) {
  std::vector<std::int32_t> ranks;
  for (const std::string& part : split_at_commas(text)) {
    const auto rank = parse_number<std::int32_t>(part);
    if (!rank) return invalid("ranks: '{}' is no whole number; example: 8,16,32,64", part);
    ranks.push_back(*rank);
  }
  return ranks;
}

Result<std::vector<std::string>> parse_policies(const std::string& text) {
  if (text == "all") return policy_names();
  const std::vector<std::string> names = split_at_commas(text);
  for (const std::string& name : names) {
    TANDEM_TRY(make_policy(name, {}).status().with_context("compare"));
  }
  return names;
}

Result<SimMachine> machine_of(const SimulateSettings& s) {
  if (s.stats.empty()) {
    return sim_machine(s.machine, s.kernel == "bgmv" ? LoraKernel::bgmv : LoraKernel::mbgmv);
  }
  TANDEM_ASSIGN(const std::string text, read_text_file(s.stats, kMaxStatsBytes));
  Result<SimMachine> machine = machine_from_stats(text);
  if (!machine) return machine.status().with_context(s.stats);
  return machine;
}

// Recorded requests contain their arrival times, adapters and lengths.
void use_recorded(const std::vector<SimRequest>& requests, WorkloadOptions& workload) {
  workload.arrivals = "recorded";
  workload.recorded = &requests;
  workload.duration_s = std::max(requests.back().arrival_s, 1.0);
  workload.requests_per_s = static_cast<double>(requests.size()) / workload.duration_s;
  workload.ranks.clear();
  workload.adapters = 0;
  for (const SimRequest& request : requests) {
    workload.adapters = std::max<std::int64_t>(workload.adapters, request.adapter.value() + 1);
    if (std::find(workload.ranks.begin(), workload.ranks.end(), request.rank) ==
        workload.ranks.end()) {
      workload.ranks.push_back(request.rank);
    }
  }
}

Result<SimulationOptions> simulation_options(const SimulateSettings& s) {
  SimulationOptions options = s.options;
  TANDEM_ASSIGN(options.machine, machine_of(s));
  TANDEM_ASSIGN(options.cold_start, parse_cold_start(s.cold_start));
  TANDEM_ASSIGN(options.workload.ranks, parse_ranks(s.ranks));
  options.mixed_steps = s.batching == "mixed";
  return options;
}

// A progress line that is overwritten on a terminal; nothing is shown elsewhere. A policy takes
// seconds.
class SimulateProgress {
 public:
  SimulateProgress(std::string policy, std::size_t number, std::size_t all, double duration_s)
      : policy_(std::move(policy)), number_(number), all_(all), duration_s_(duration_s) {}
  void update(double simulated_s) {
    if (!terminal_) return;
    fmt::print(stderr, "\r{} ({} of {}): {:.0f} of {:.0f} simulated seconds\x1b[K", policy_,
               number_, all_, simulated_s, duration_s_);
  }
  ~SimulateProgress() {
    if (terminal_) fmt::print(stderr, "\r\x1b[K");
  }
  SimulateProgress(const SimulateProgress&) = delete;
  SimulateProgress& operator=(const SimulateProgress&) = delete;

 private:
  std::string policy_;
  std::size_t number_;
  std::size_t all_;
  double duration_s_;
  bool terminal_ = Progress::is_terminal(STDERR_FILENO);
};

std::vector<std::pair<std::string, nlohmann::json>> setting_of(const SimulateSettings& s,
                                                               const SimulationOptions& options) {
  return {{"engines", options.engines},
          {"machine", options.machine.name},
          {"kernel", options.machine.costs.kernel == LoraKernel::bgmv ? "bgmv" : "mbgmv"},
          {"cold_start", s.cold_start},
          {"batching", s.batching},
          {"adapter_clusters", options.line.adapter_clusters},
          {"ttft_deadline_s", options.line.ttft_deadline_s},
          {"newest_first", options.line.newest_first},
          {"slo_factor", options.slo_factor},
          {"arrivals", options.workload.arrivals},
          {"requests_per_s", options.workload.requests_per_s},
          {"cv", options.workload.cv},
          {"trace", s.trace},
          {"duration_s", options.workload.duration_s},
          {"warmup_s", options.warmup_s},
          {"adapters", options.workload.adapters},
          {"popularity", options.workload.popularity},
          {"zipf_exponent", options.workload.zipf_exponent},
          {"shift", options.workload.shift_at},
          {"lengths", options.workload.lengths},
          {"ranks", options.workload.ranks},
          {"prefixes", options.workload.prefixes},
          {"prefix_tokens", options.workload.prefix_tokens},
          {"tell_prefixes", options.tell_prefixes},
          {"seed", options.workload.seed}};
}

Result<int> write_trace(const SimulateSettings& s) {
  const WorkloadOptions& w = s.options.workload;
  const auto minutes =
      std::clamp(static_cast<std::int32_t>(w.duration_s / 60), 1, kMaxTraceMinutes);
  TANDEM_ASSIGN(const auto weights, popularity_weights(w.popularity, w.adapters, w.zipf_exponent));
  TANDEM_TRY(write_output("write-trace", s.write_trace,
                          make_azure_trace(weights, w.requests_per_s, minutes, w.seed)));
  fmt::print("written: {}, {} functions, {} minutes\n", s.write_trace, w.adapters, minutes);
  return kExitOk;
}

Result<int> simulate(const SimulateSettings& s, const std::string& command) {
  if (!s.write_trace.empty()) return write_trace(s);
  TANDEM_ASSIGN(const std::vector<std::string> policies, parse_policies(s.compare));
  TANDEM_ASSIGN(SimulationOptions options, simulation_options(s));
  std::optional<AzureTrace> trace;
  if (!s.trace.empty()) {
    if (options.workload.arrivals != "trace")
      return invalid("trace: it is read with --arrivals trace alone");
    TANDEM_ASSIGN(const std::string text, read_text_file(s.trace, kMaxTraceBytes));
    auto parsed = parse_azure_trace(text);
    if (!parsed) return parsed.status().with_context(s.trace);
    trace = std::move(*parsed);
  }
  const AzureTrace* calls = trace ? &*trace : nullptr;
  std::vector<SimRequest> recorded;
  if (!s.requests.empty()) {
    if (s.load > 0 || trace)
      return invalid("requests: recorded ones come as they came; no load or trace beside it");
    TANDEM_ASSIGN(const std::string text, read_text_file(s.requests, kMaxTraceBytes));
    auto parsed = parse_recorded_requests(text);
    if (!parsed) return parsed.status().with_context(s.requests);
    recorded = std::move(*parsed);
    use_recorded(recorded, options.workload);
  }
  TANDEM_ASSIGN(const Workload workload, Workload::create(options.workload, calls));
  SimulateReport report;
  report.capacity_per_s = capacity_per_s(options, workload);
  if (s.load > 0) options.workload.requests_per_s = s.load * report.capacity_per_s;
  report.command = command;
  report.machine = options.machine.description;
  report.setting = setting_of(s, options);
  report.slo_token_ms = slo_token_s(options, workload) * 1e3;
  fmt::print(
      "{} engines: {}\n{:.0f} requests/s of at most {:.0f}; SLO {:.2f} ms per token; times "
      "in ms\n\n{}",
      options.engines, report.machine, options.workload.requests_per_s, report.capacity_per_s,
      report.slo_token_ms, simulate_table_head());
  const SteadyClock clock;
  for (const std::string& policy : policies) {
    std::fflush(stdout);
    Result<PolicyResult> result = [&] {
      SimulateProgress progress(policy, report.policies.size() + 1, policies.size(),
                                options.workload.duration_s);
      return simulate_policy(policy, options, calls, clock,
                             [&](double simulated_s) { progress.update(simulated_s); });
    }();
    if (!result) return result.status();
    report.policies.push_back(std::move(*result));
    fmt::print("{}", simulate_table_row(report.policies.back()));
  }
  if (!s.json.empty()) {
    TANDEM_TRY(write_output("json", s.json, report.to_json().dump(2) + '\n'));
    fmt::print("\nwritten: {}\n", s.json);
  }
  if (!s.html.empty()) {
    TANDEM_TRY(write_output("html", s.html, report.to_html().text()));
    fmt::print("\nwritten: {}\n", s.html);
  }
  return kExitOk;
}

}  // namespace

int run_simulate(const std::vector<std::string>& args) {
  SimulateSettings settings;
  SettingsTable table;
  add_settings(table, settings);
  if (const auto status = read_settings(kInfo, table, args)) return *status;
  const std::string command =
      fmt::format("tandem simulate{}{}", args.empty() ? "" : " ", fmt::join(args, " "));
  const Result<int> status = simulate(settings, command);
  return status ? *status : report_failure(kInfo, status.status());
}

}  // namespace tandem
