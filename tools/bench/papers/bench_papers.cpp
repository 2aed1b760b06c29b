#include "tools/bench/papers/bench_papers.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "base/file/file.h"
#include "tools/bench/common/bench_report.h"
#include "tools/bench/common/bench_selection.h"
#include "tools/bench/common/command_line.h"
#include "tools/bench/papers/papers_report.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/log_settings.h"
#include "tools/settings/engine_settings.h"

namespace tandem {
namespace {

using namespace papers;

const CommandInfo kInfo{
    "bench papers", "[--only ID,...] [--quick] [flags]",
    "Repeats the experiments of Punica, S-LoRA, CaraServe and the essay on many tenants: in\n"
    "simulated time, by counting, or on this machine's device. Prints for each what the paper\n"
    "shows, what this run shows, and whether it goes in the same direction. Times are printed and\n"
    "not judged. docs/papers.md has the recorded results.",
    "  tandem bench papers --quick\n"
    "  tandem bench papers --only s-lora-9,caraserve-19 --html papers.html\n"
    "  tandem bench papers --list"};

// The trace of 100,000 functions for a day has about 300 MB.
constexpr std::uint64_t kMaxTraceBytes = std::uint64_t{2} << 30;

struct PapersSettings {
  std::string only;
  bool list = false;
  bool quick = false;
  std::string trace;
};

Result<std::vector<const Experiment*>> choose(const std::string& only) {
  std::vector<std::string_view> known;
  for (const Experiment& each : experiments()) known.push_back(each.id);
  TANDEM_ASSIGN(const BarSelection selection, BarSelection::parse(only, known));
  std::vector<const Experiment*> chosen;
  for (const Experiment& each : experiments()) {
    if (selection.any(each.id)) chosen.push_back(&each);
  }
  return chosen;
}

// An experiment that this machine cannot run is a row with the reason, not the end of the command.
Findings run_one(const Experiment& experiment, const PapersBench& bench) {
  Findings missing;
  if (experiment.run == nullptr) {
    missing.why = experiment.how;
    return missing;
  }
  Result<Findings> found = experiment.run(bench);
  if (found) return *std::move(found);
  missing.why = found.status().message();
  return missing;
}

Result<int> bench_papers(const PapersSettings& settings, const EngineSettings& engine,
                         const ReportSettings& reporting, const std::string& command) {
  TANDEM_ASSIGN(const std::vector<const Experiment*> chosen, choose(settings.only));
  if (settings.list) {
    fmt::print("{}", list_text(chosen));
    return kExitOk;
  }
  std::optional<AzureTrace> trace;
  if (!settings.trace.empty()) {
    TANDEM_ASSIGN(const std::string text, read_text_file(settings.trace, kMaxTraceBytes));
    auto parsed = parse_azure_trace(text);
    if (!parsed) return parsed.status().with_context(settings.trace);
    trace = std::move(*parsed);
  }
  const SteadyClock clock;
  const PapersBench bench{settings.quick, engine, trace ? &*trace : nullptr, clock};
  std::vector<PaperRow> rows;
  bool all_shown = true;
  for (const Experiment* experiment : chosen) {
    fmt::print(stderr, "{} of {}: {}\n", rows.size() + 1, chosen.size(), experiment->id);
    const TimePoint start = clock.now();
    PaperRow& row = rows.emplace_back(PaperRow{experiment, run_one(*experiment, bench), 0});
    row.wall_s = seconds_between(start, clock.now());
    all_shown = all_shown && row.found.verdict != Verdict::not_shown;
    fmt::print("{}", row_text(row));
    std::fflush(stdout);
  }
  fmt::print("{}", summary_text(rows));
  if (!reporting.json.empty()) {
    nlohmann::json json = BenchReport("papers", command).to_json();
    json["experiments"] = rows_json(rows);
    TANDEM_TRY(write_output("json", reporting.json, json.dump(2) + '\n'));
    fmt::print("\nwritten: {}\n", reporting.json);
  }
  if (!reporting.html.empty()) {
    TANDEM_TRY(write_output("html", reporting.html, papers_page(command, rows).text()));
    fmt::print("\nwritten: {}\n", reporting.html);
  }
  return reporting.check && !all_shown ? kExitFailure : kExitOk;
}

}  // namespace

int run_bench_papers(const std::vector<std::string>& args) {
  PapersSettings settings;
  ReportSettings reporting;
  EngineSettings engine;
  engine.model = "auto";
  engine.load_format = "dummy";
  ServerSettings server;
  SettingsTable table;
  add_report_settings(table, reporting);
  table.group("Benchmark");
  table.add(settings.only, "only", "only these experiments; --list names them")
      .meta("IDS")
      .flag_only();
  table.add(settings.list, "list", "print ids and claims, and stop").flag_only();
  table
      .add(settings.quick, "quick",
           "small shapes and short simulations: all experiments in under two minutes")
      .flag_only();
  table
      .add(settings.trace, "azure_trace",
           "calls by function and minute, in the format of the Azure Functions traces; without it "
           "their published skew stands in")
      .meta("FILE")
      .flag_only();
  add_engine_settings(table, engine, server, {});
  if (const auto status = read_settings(kInfo, table, args)) return *status;
  set_up_log(engine.log);
  const Result<int> status =
      bench_papers(settings, engine, reporting, bench_command_line("papers", args));
  return status ? *status : report_failure(kInfo, status.status());
}

}  // namespace tandem
