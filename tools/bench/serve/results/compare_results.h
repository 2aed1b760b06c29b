// Two results of `--save-result` side by side.
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

  double change() const { return a == 0 ? 0 : (b - a) / a; }  // -0.1: a tenth less
  bool is_better() const { return more_is_better ? b > a : b < a; }
};

// What a result says of where it is from: (name, value).
using ResultOrigin = std::vector<std::pair<std::string, std::string>>;

struct Comparison {
  std::vector<ComparedFigure> figures;   // that both have
  std::vector<std::string> differences;  // in what was asked for: "request_rate: 4, 8"
  std::optional<DetailedTimes> a_times, b_times;
  ResultOrigin a_origin, b_origin;

  // Empty: both have the times of single requests. Else what to do, to see distributions.
  std::string why_no_distributions() const;
  std::string text(const std::string& a, const std::string& b) const;
  HtmlPage to_html(const std::string& a, const std::string& b) const;
};

// Of runs, also of vLLM's benchmark, or of sweeps (their knees, and the runs at the same values).
// An error if one is neither, or if they have no figure in common.
Result<Comparison> compare_results(const nlohmann::ordered_json& a,
                                   const nlohmann::ordered_json& b);

Result<nlohmann::ordered_json> read_result(const std::string& path);

}  // namespace tandem
