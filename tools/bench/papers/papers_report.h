// What `tandem bench papers` has found: as text, as JSON and as a page with the papers' plots.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/bench/papers/experiment.h"
#include "tools/report/html_page.h"

namespace tandem::papers {

struct PaperRow {
  const Experiment* experiment = nullptr;
  Findings found;
  double wall_s = 0;
};

// One experiment's lines, printed as soon as it has ended.
std::string row_text(const PaperRow& row);
// Ids and claims of these experiments, a line each.
std::string list_text(const std::vector<const Experiment*>& chosen);
// How many claims are shown, and which are not.
std::string summary_text(const std::vector<PaperRow>& rows);

// [{id, figure, claim, setting, theirs, ground, how, here, verdict, why, command, wall_s, x_label,
// y_label, series: [{name, points: [[x, y]]}]}]
nlohmann::json rows_json(const std::vector<PaperRow>& rows);

// Claims that are not shown stand first.
HtmlPage papers_page(const std::string& command, const std::vector<PaperRow>& rows);

}  // namespace tandem::papers
