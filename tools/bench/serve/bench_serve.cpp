#include "tools/bench/serve/bench_serve.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include "tools/bench/serve/load_sweep.h"
#include "tools/bench/serve/results/compare_results.h"
#include "tools/bench/serve/serve_options.h"
#include "tools/bench/serve/serve_session.h"
#include "tools/bench/serve/stub_server.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/signals.h"

namespace tandem {
namespace {

const CommandInfo kInfo{
    "bench serve", "[--base-url URL] [flags]",
    "Sends requests to an OpenAI-compatible server when they are due, whether or not earlier ones\n"
    "are answered, and measures the answers: TTFT is the time to the first token, TPOT the time\n"
    "per token after it, ITL the time between events, E2EL the time to the last event. JSON and\n"
    "most flags are those of `vllm bench serve`.\n"
    "Delays count from when a request was due, so a server that falls behind shows the delay that\n"
    "its users see. docs/bench-serve.md has loads to start from. Without flags: 1000 random\n"
    "prompts, all at once, for the model that http://127.0.0.1:8000 lists first.",
    "  tandem bench serve --request-rate 9 --num-prompts 90 --input-len 64 --output-len 32\n"
    "  tandem bench serve --max-concurrency 32 --lora-modules all --save-result\n"
    "  tandem bench serve --lora-modules a b c --lora-request-distribution skewed\n"
    "  tandem bench serve --sweep request-rate=1..64 --goodput ttft:200 tpot:50 --num-prompts 200\n"
    "  tandem bench serve --compare a.json b.json"};

double process_cpu_s() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string file_of(const ServeBenchSettings& s, const ServeReport& report) {
  std::string name = s.result_filename;
  if (name.empty()) {
    const nlohmann::ordered_json json = report.to_json(false);
    const double rate = report.conditions.request_rate;
    name = fmt::format("{}-{}-{}-{}.json", s.label.empty() ? s.backend : s.label,
                       !s.sweep.empty()      ? "sweep"
                       : std::isfinite(rate) ? fmt::format("{:g}qps", rate)
                                             : "infqps",
                       std::filesystem::path(report.conditions.model).filename().string(),
                       json["date"].get<std::string>());
  }
  return (std::filesystem::path(s.result_dir) / name).string();
}

Status write_file(const char* setting, const std::string& path, const std::string& text) {
  TANDEM_TRY(write_output(setting, path, text));
  fmt::print("\nwritten: {}\n", path);
  return {};
}

// `one`: the run that gives the file its name. `results`: the run or sweep to write.
template <typename Results>
Status write_results(const ServeBenchSettings& s, const ServeReport& one, const Results& results) {
  if (s.save_result || s.run.keep_text) {
    // Texts from servers may be invalid UTF-8.
    constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
    TANDEM_TRY(write_file("result_filename", file_of(s, one),
                          results.to_json(s.run.keep_text).dump(1, ' ', false, kReplace) + '\n'));
  }
  if (!s.html.empty()) TANDEM_TRY(write_file("html", s.html, results.to_html().text()));
  return {};
}

Result<int> compare(const ServeBenchSettings& s) {
  if (s.compare.size() != 2) return invalid("compare: give two files, --compare a.json b.json");
  TANDEM_ASSIGN(const auto a, read_result(s.compare[0]));
  TANDEM_ASSIGN(const auto b, read_result(s.compare[1]));
  TANDEM_ASSIGN(const Comparison comparison, compare_results(a, b));
  fmt::print("{}", comparison.text(s.compare[0], s.compare[1]));
  if (!s.html.empty()) {
    if (const std::string why = comparison.why_no_distributions(); !why.empty()) {
      fmt::print("\n{}\n", why);
    }
    TANDEM_TRY(write_file("html", s.html, comparison.to_html(s.compare[0], s.compare[1]).text()));
  }
  return kExitOk;
}

Result<int> sweep(const ServeBenchSettings& s, ServeSession& session) {
  TANDEM_ASSIGN(const SweepRange range, parse_sweep_range(s.sweep));
  TANDEM_ASSIGN(const double rate, parse_rate("request_rate", s.request_rate));
  const bool has_arrivals = s.run.burst_pause_s >= 0 || !s.plan.arrivals.ramp_up.empty() ||
                            s.dataset.name == "timed_trace" || !s.lora_rates.empty();
  if (range.of_rates && (has_arrivals || std::isfinite(rate))) {
    return invalid(
        "sweep: it sets the rate itself; leave --request-rate and what has times of its "
        "own (ramps, --burst-pause-s, --lora-rates, timed_trace) out");
  }
  if (!range.of_rates && s.run.max_concurrency > 0) {
    return invalid("sweep: it sets the limit itself; leave --max-concurrency out");
  }
  TANDEM_ASSIGN(
      const LoadSweep found,
      run_load_sweep(range, s.sweep_attainment,
                     [&](double value, std::int64_t number) -> Result<std::optional<ServeReport>> {
                       const std::string what = fmt::format("{:.3g}: ", value);
                       TANDEM_ASSIGN(
                           ServeReport report,
                           range.of_rates
                               ? session.measure(value, s.run.max_concurrency, what, number)
                               : session.measure(rate, std::llround(value), what, number));
                       if (session.stopped()) return std::optional<ServeReport>();
                       return std::optional(std::move(report));
                     }));
  if (found.points.empty()) {
    return report_failure(kInfo,
                          error(StatusCode::cancelled, "stopped before the first run was over"));
  }
  fmt::print("{}", found.text());
  TANDEM_TRY(write_results(s, found.points.front().report, found));
  return found.knee ? kExitOk : kExitFailure;
}

Result<int> bench_serve(ServeBenchSettings s, const std::vector<std::string>& args) {
  if (!s.compare.empty()) return compare(s);
  if (!s.json.empty()) {
    if (!s.result_filename.empty())
      return invalid(
          "json: it means the same as --save-result with --result-filename; give one of them");
    s.save_result = true;
    s.result_filename = s.json;
  }
  std::unique_ptr<StubProcess> stub;
  if (s.stub) {
    TANDEM_ASSIGN(stub, StubProcess::start({s.stub_ttft_ms * 1e-3, s.stub_tpot_ms * 1e-3}));
    s.base_url = fmt::format("http://127.0.0.1:{}", stub->port());
  }
  TANDEM_ASSIGN(const double rate, parse_rate("request_rate", s.request_rate));
  TANDEM_ASSIGN(const auto signals, StopSignals::create());
  signals->set_graceful(true);
  TANDEM_ASSIGN(ServeSession session, ServeSession::create(s, command_without_secrets(args), [&] {
                  return signals->stop_requested();
                }));
  // A signal does not discard the results so far: they are printed, and the exit status says that
  // they are incomplete.
  if (!s.sweep.empty()) {
    TANDEM_ASSIGN(const int status, sweep(s, session));
    return signals->exit_status(status);
  }
  const double before_s = process_cpu_s();
  TANDEM_ASSIGN(const ServeReport report, session.measure(rate, s.run.max_concurrency, "", 0));
  const double cpu_s = process_cpu_s() - before_s;
  fmt::print("{}", report.text());
  if (stub != nullptr && report.figures.completed > 0) {
    const auto completed = static_cast<double>(report.figures.completed);
    fmt::print("\n  this program took {:.1f} us of a core for each request: {:.0f} a second\n",
               cpu_s / completed * 1e6, completed / cpu_s);
  }
  TANDEM_TRY(write_results(s, report, report));
  return signals->exit_status(report.figures.completed > 0 ? kExitOk : kExitFailure);
}

}  // namespace

int run_bench_serve(const std::vector<std::string>& args) {
  ServeBenchSettings settings;
  SettingsTable table;
  add_serve_bench_settings(table, settings);
  if (const auto status = read_settings(kInfo, table, args)) return *status;
  const Result<int> status = bench_serve(settings, args);
  return status ? *status : report_failure(kInfo, status.status());
}

}  // namespace tandem
