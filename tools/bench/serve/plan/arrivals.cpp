#include "tools/bench/serve/plan/arrivals.h"

#include <cmath>

#include "base/parse_number.h"

namespace tandem {
namespace {

// One request in 12 days: a smaller rate gives no meaningful times.
constexpr double kLeastRate = 1e-6;

// Returns the rate at burst number `place` of `count`.
double rate_at(const ArrivalOptions& options, std::int64_t place, std::int64_t count) {
  if (options.ramp_up.empty()) return options.requests_per_s;
  const double share = count < 2 ? 0 : static_cast<double>(place) / static_cast<double>(count - 1);
  if (options.ramp_up == "linear") {
    return options.start_rps + (options.end_rps - options.start_rps) * share;
  }
  return options.start_rps * std::pow(options.end_rps / options.start_rps, share);
}

Status check_arrivals(const ArrivalOptions& options) {
  if (!(options.burstiness > 0)) return invalid("burstiness must be above 0");
  if (options.burst_size < 1) return invalid("burst_size must be at least 1");
  if (options.ramp_up.empty()) {
    if (!(options.requests_per_s >= kLeastRate))
      return invalid("request_rate must be above 0, or inf");
    return {};
  }
  if (options.ramp_up != "linear" && options.ramp_up != "exponential") {
    return invalid("ramp_up_strategy must be linear or exponential, not '{}'", options.ramp_up);
  }
  if (std::isfinite(options.requests_per_s)) {
    return invalid("a ramp has rates of its own: leave --request-rate out");
  }
  if (!(options.start_rps >= kLeastRate) || !(options.end_rps >= kLeastRate)) {
    return invalid("a ramp needs --ramp-up-start-rps and --ramp-up-end-rps, both above 0");
  }
  return {};
}

}  // namespace

Result<double> parse_rate(std::string_view setting, std::string_view text) {
  if (text == "inf") return kAllAtOnce;
  const double rate = parse_number<double>(text).value_or(0);
  if (rate < kLeastRate) {
    return invalid("{} must be requests a second, {} or more, or inf for all at once; not '{}'",
                   setting, kLeastRate, text);
  }
  return rate;
}

Result<std::vector<double>> arrival_times(const ArrivalOptions& options, std::int64_t count,
                                          std::mt19937_64& random) {
  TANDEM_TRY(check_arrivals(options));
  std::vector<double> times(static_cast<std::size_t>(count), 0);
  if (options.ramp_up.empty() && !std::isfinite(options.requests_per_s)) return times;
  const std::int64_t bursts = (count + options.burst_size - 1) / options.burst_size;
  double now_s = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i % options.burst_size == 0) {
      const double bursts_per_s = rate_at(options, i / options.burst_size, bursts) /
                                  static_cast<double>(options.burst_size);
      now_s += std::gamma_distribution<double>(options.burstiness,
                                               1 / (bursts_per_s * options.burstiness))(random);
    }
    times[static_cast<std::size_t>(i)] = now_s;
  }
  if (options.ramp_up.empty() && now_s > 0) {
    const double scale = static_cast<double>(count) / options.requests_per_s / now_s;
    for (double& time : times) time *= scale;
  }
  return times;
}

}  // namespace tandem
