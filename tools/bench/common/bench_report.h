// The results of a benchmark: bars met or missed, samples, tables, facts and plots; as text, as
// JSON and as an HTML page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings/settings.h"
#include "base/status.h"
#include "tools/report/html_page.h"
#include "tools/report/plot.h"

namespace tandem {

// The side of its bar on which a figure must be.
enum class Must { be_at_least, be_at_most };

struct Bar {
  std::string id;    // "H1"
  std::string what;  // "decode, batch 1: weight bytes/s over memory bandwidth"
  double value = 0;
  std::string unit;  // "" for a ratio
  Must must = Must::be_at_least;
  double bar = 0;
  // False if the case ran on other hardware than the bar is for: host devices instead of GPUs.
  bool judged = true;

  bool ok() const { return must == Must::be_at_least ? value >= bar : value <= bar; }
};

// Timings of one case; sorted when summarised.
struct Samples {
  std::string name;
  std::string unit;
  std::vector<double> values;

  double mean() const;
  double median() const;
  double percentile(double share) const;  // 0.99: the 99th; nearest rank; requires values
};

// Figures that belong side by side. Cells are texts or numbers.
struct ReportTable {
  std::string title;
  std::vector<std::string> head;
  std::vector<std::vector<nlohmann::json>> rows;
};

// The flags --json, --html and --check of every benchmark with bars. (`bench serve` has no bars,
// and defines the first two itself.)
struct ReportSettings {
  std::string json;
  std::string html;
  bool check = false;
};
void add_report_settings(SettingsTable& table, ReportSettings& settings);

class BenchReport {
 public:
  // `command` is the command line, so that readers can repeat the run.
  BenchReport(std::string name, std::string command);

  void add(Bar bar) { bars_.push_back(std::move(bar)); }
  void add(const Samples& samples) { samples_.push_back(samples); }
  void add(ReportTable table) { tables_.push_back(std::move(table)); }
  // For the page only, which then shows these plots instead of distributions of the samples.
  void add(Plot plot) { plots_.push_back(std::move(plot)); }
  void fact(std::string name, nlohmann::json value);

  const std::vector<Bar>& bars() const { return bars_; }
  bool all_ok() const;  // only judged bars count
  std::string table() const;
  nlohmann::json to_json()
      const;  // {bench, command, commit, machine, facts, samples, tables, bars}

  HtmlPage to_html() const;

  // Prints the table to standard output, writes --json and --html, and returns the exit status:
  // with --check a missed bar is a failure.
  Result<int> finish(const ReportSettings& settings) const;

 private:
  std::vector<HtmlFigure> summary() const;

  std::string name_;
  std::string command_;
  std::vector<Bar> bars_;
  std::vector<Samples> samples_;
  std::vector<ReportTable> tables_;
  std::vector<Plot> plots_;
  std::vector<std::pair<std::string, nlohmann::json>> facts_;
};

}  // namespace tandem
