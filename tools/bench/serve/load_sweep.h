// Runs at values that double, and then between the last good and the first bad one: where the knee
// is.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tools/bench/serve/results/serve_report.h"

namespace tandem {

struct SweepRange {
  bool of_rates = true;  // else of limits, which are whole numbers
  double low = 0;
  double high = 0;
};

// "request-rate=1..64" or "max-concurrency=1..256".
Result<SweepRange> parse_sweep_range(std::string_view text);

struct SweepPoint {
  double value = 0;
  ServeReport report;
  bool good = false;
};

struct LoadSweep {
  SweepRange range;
  double attainment = 0.95;
  std::vector<SweepPoint> points;  // by value
  std::optional<double> knee;      // the largest good value; nothing if none is

  std::string text() const;
  // {"sweep", "knee", "points": [{"value", "good", and the fields of a run}]}
  nlohmann::ordered_json to_json(bool detailed) const;
  HtmlPage to_html() const;
};

// With objectives a run is good if `attainment` of its requests meet them. Without: if as many are
// answered, and the median latency is at most twice that at the lowest value; of limits, if a
// doubled limit brings a tenth more tokens a second. Stops early, with what there is, when
// `measure` says nothing.
Result<LoadSweep> run_load_sweep(
    const SweepRange& range, double attainment,
    const std::function<Result<std::optional<ServeReport>>(double value, std::int64_t number)>&
        measure);

}  // namespace tandem
