// Finds the knee: runs at doubling values, then at values between the last good and the first bad
// one.
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
  bool of_rates = true;  // else of limits on concurrency, which are whole numbers
  double low = 0;
  double high = 0;
};

// Reads "request-rate=1..64" or "max-concurrency=1..256".
Result<SweepRange> parse_sweep_range(std::string_view text);

struct SweepPoint {
  double value = 0;
  ServeReport report;
  bool good = false;
};

struct LoadSweep {
  SweepRange range;
  double attainment = 0.95;
  std::vector<SweepPoint> points;  // in rising order of their values
  std::optional<double> knee;      // the largest good value; nothing if no value is good

  std::string text() const;
  // {"sweep", "knee", "points": [{"value", "good", and the fields of a run}]}
  nlohmann::ordered_json to_json(bool detailed) const;
  HtmlPage to_html() const;
};

// With objectives a run is good if `attainment` of its requests meet them. Without objectives the
// same share must be answered; for rates the median latency must be at most twice that at the
// lowest value, for limits a doubled limit must give a tenth more tokens/s. Stops with the runs so
// far if `measure` returns nothing.
Result<LoadSweep> run_load_sweep(
    const SweepRange& range, double attainment,
    const std::function<Result<std::optional<ServeReport>>(double value, std::int64_t number)>&
        measure);

}  // namespace tandem
