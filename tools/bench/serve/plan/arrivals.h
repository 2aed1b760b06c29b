// Arrival times, drawn before the run begins, so that the load does not depend on the server.
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

inline constexpr double kAllAtOnce = std::numeric_limits<double>::infinity();

// Reads "9", "0.5", or "inf" for kAllAtOnce. Anything else that is not above zero is an error,
// which names `setting`.
Result<double> parse_rate(std::string_view setting, std::string_view text);

struct ArrivalOptions {
  double requests_per_s = kAllAtOnce;
  // Shape of the pauses' gamma distribution: 1 is a Poisson process, a smaller value gives bursts,
  // a larger one steadier arrivals.
  double burstiness = 1;
  std::int64_t burst_size = 1;  // requests per arrival time
  std::string ramp_up;          // linear or exponential: from `start_rps` to `end_rps`
  double start_rps = 0;
  double end_rps = 0;
};

// Returns the seconds from the run's start, in rising order. Without a ramp the pauses are scaled
// so that the last request comes at count / requests_per_s: the offered load is exactly the
// requested one, and randomness only spreads it.
Result<std::vector<double>> arrival_times(const ArrivalOptions& options, std::int64_t count,
                                          std::mt19937_64& random);

}  // namespace tandem
