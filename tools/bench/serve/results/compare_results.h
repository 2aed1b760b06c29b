// Compares two results of `--save-result`.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tools/bench/serve/results/detailed_times.h"
#include "tools/report/html_page.h"

namespace tandem {

struct ComparedFigure {
  std::string name;
  double a = 0;
  double b = 0;
  bool more_is_better = false;

  double change() const { return a == 0 ? 0 : (b - a) / a; }  // relative: -0.1 is a tenth less
  bool is_better() const { return more_is_better ? b > a : b < a; }
};

// The origin stated in a result: (name, value).
using ResultOrigin = std::vector<std::pair<std::string, std::string>>;

struct Comparison {
  std::vector<ComparedFigure> figures;   // figures that both results have
  std::vector<std::string> differences;  // between the settings: "request_rate: 4, 8"
  std::optional<DetailedTimes> a_times, b_times;
  ResultOrigin a_origin, b_origin;

  // Empty: both results have the times of single requests. Else says how to get them.
  std::string why_no_distributions() const;
  std::string text(const std::string& a, const std::string& b) const;
  HtmlPage to_html(const std::string& a, const std::string& b) const;
};

// Accepts runs, also of vLLM's benchmark, and sweeps (compares their knees, and runs at equal
// values). An error if a result is neither, or if they have no figure in common.
Result<Comparison> compare_results(const nlohmann::ordered_json& a,
                                   const nlohmann::ordered_json& b);

Result<nlohmann::ordered_json> read_result(const std::string& path);

}  // namespace tandem
