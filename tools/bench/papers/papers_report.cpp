#include "tools/bench/papers/papers_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::papers {
namespace {

std::string command_of(const Experiment& experiment) {
  return fmt::format("tandem bench papers --only {}", experiment.id);
}

// Not shown, shown, measured, not run; in each the papers' order.
std::vector<const PaperRow*> by_verdict(const std::vector<PaperRow>& rows) {
  std::vector<const PaperRow*> sorted;
  sorted.reserve(rows.size());
  for (const PaperRow& row : rows) sorted.push_back(&row);
  std::ranges::stable_sort(sorted, {}, [](const PaperRow* row) {
    return row->found.verdict == Verdict::not_shown ? -1 : static_cast<int>(row->found.verdict);
  });
  return sorted;
}

std::int64_t count(const std::vector<PaperRow>& rows, Verdict verdict) {
  return std::ranges::count_if(rows,
                               [&](const PaperRow& row) { return row.found.verdict == verdict; });
}

Plot plot_of(const PaperRow& row) {
  Plot plot;
  plot.title = fmt::format("{} ({})", row.experiment->figure, row.experiment->id);
  plot.x_label = row.experiment->x_label;
  plot.y_label = row.experiment->y_label;
  plot.series = row.found.series;
  plot.log_x = row.experiment->log_x;
  plot.y_from_zero = true;
  plot.note = row.experiment->how;
  return plot;
}

}  // namespace

std::string row_text(const PaperRow& row) {
  const Experiment& it = *row.experiment;
  std::string text = fmt::format("{}: {}: {} ({}, {:.1f} s)\n  claim  {}\n  paper  {}\n", it.id,
                                 it.figure, to_string(row.found.verdict), to_string(it.ground),
                                 row.wall_s, it.claim, it.theirs);
  if (!row.found.here.empty()) text += fmt::format("  here   {}\n", row.found.here);
  const bool missing =
      row.found.verdict == Verdict::not_shown || row.found.verdict == Verdict::not_run;
  if (!row.found.why.empty()) {
    text += fmt::format("  {:<7}{}\n", missing ? "why" : "note", row.found.why);
  }
  return text;
}

std::string list_text(const std::vector<const Experiment*>& chosen) {
  std::string text;
  for (const Experiment* it : chosen) {
    text +=
        fmt::format("{:<20}{:<10}{}: {}\n", it->id, to_string(it->ground), it->figure, it->claim);
  }
  return text;
}

std::string summary_text(const std::vector<PaperRow>& rows) {
  std::string text =
      fmt::format("\n{} experiments: {} claims shown, {} not shown, {} measured, {} not run\n",
                  rows.size(), count(rows, Verdict::shown), count(rows, Verdict::not_shown),
                  count(rows, Verdict::measured), count(rows, Verdict::not_run));
  for (const PaperRow& row : rows) {
    if (row.found.verdict == Verdict::not_shown)
      text += fmt::format("  not shown: {}: {}\n", row.experiment->id, row.found.why);
  }
  return text;
}

nlohmann::json rows_json(const std::vector<PaperRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const PaperRow& row : rows) {
    const Experiment& it = *row.experiment;
    nlohmann::json series = nlohmann::json::array();
    for (const PlotSeries& one : row.found.series) {
      series.push_back({{"name", one.name}, {"points", one.points}});
    }
    list.push_back({{"id", it.id},
                    {"figure", it.figure},
                    {"claim", it.claim},
                    {"setting", it.setting},
                    {"theirs", it.theirs},
                    {"ground", to_string(it.ground)},
                    {"how", it.how},
                    {"here", row.found.here},
                    {"verdict", to_string(row.found.verdict)},
                    {"why", row.found.why},
                    {"command", command_of(it)},
                    {"wall_s", row.wall_s},
                    {"x_label", it.x_label},
                    {"y_label", it.y_label},
                    {"series", series}});
  }
  return list;
}

HtmlPage papers_page(const std::string& command, const std::vector<PaperRow>& rows) {
  using Look = HtmlCell::Look;
  HtmlPage page("tandem bench papers", origin_here(command));
  const std::int64_t missed = count(rows, Verdict::not_shown);
  page.summary({{"claims shown", std::to_string(count(rows, Verdict::shown)), "", Look::good},
                {"not shown", std::to_string(missed), "", missed > 0 ? Look::bad : Look::figure},
                {"measured", std::to_string(count(rows, Verdict::measured)), "times, not judged"},
                {"not run", std::to_string(count(rows, Verdict::not_run)), ""}});
  HtmlRows table;
  for (const PaperRow* row : by_verdict(rows)) {
    const Experiment& it = *row->experiment;
    const Verdict verdict = row->found.verdict;
    table.push_back(
        {{std::string(it.figure), Look::text},
         {std::string(to_string(verdict)), verdict == Verdict::shown       ? Look::good
                                           : verdict == Verdict::not_shown ? Look::bad
                                                                           : Look::text},
         {std::string(it.claim), Look::text},
         {std::string(it.theirs), Look::text},
         {row->found.here.empty() ? row->found.why : row->found.here, Look::text},
         {std::string(it.id), Look::text}});
  }
  page.section("Claims");
  page.table({"figure", "verdict", "claim", "the paper", "here", "--only"}, table);
  page.section("Plots");
  std::vector<Plot> plots;
  for (const PaperRow& row : rows) {
    if (!row.found.series.empty()) plots.push_back(plot_of(row));
  }
  page.plots(plots);
  return page;
}

}  // namespace tandem::papers
