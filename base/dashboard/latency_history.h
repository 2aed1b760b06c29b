// Latencies of first and later tokens in the last minutes, as quantiles over slices of a few
// seconds. Memory is fixed, whatever the traffic: values are counted in classes 10 % wide.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"

namespace tandem {

// Thread-safe.
class LatencyHistory {
 public:
  static constexpr int kSliceSeconds = 5;
  static constexpr int kSlices = 60;

  // Quantiles of one time slice, in seconds; negative: no request ended in it.
  struct Quantiles {
    double median = -1, p95 = -1;
  };
  struct Slice {
    Quantiles first_token;  // from the request's arrival
    Quantiles per_token;    // for tokens after the first
    std::uint32_t requests = 0;
  };

  // Records the end of a request. `per_token_s` is empty for answers of one token.
  void add(TimePoint now, double first_token_s, std::optional<double> per_token_s);
  // kSlices slices, oldest first; the last one contains `now`.
  std::vector<Slice> slices(TimePoint now) const;

 private:
  // Classes start at 10 us; values beyond the last class (about 3 hours) are counted in it.
  static constexpr double kShortest_s = 1e-5;
  static constexpr double kClassWidth = 1.1;
  static constexpr std::size_t kClasses = 220;
  struct Counts {
    std::array<std::uint32_t, kClasses> classes{};
    std::uint32_t total = 0;
    void add(double seconds);
    Quantiles quantiles() const;
  };
  struct Counted {
    std::int64_t number = -1;  // the slice's number since the clock's beginning
    Counts first_token, per_token;
  };
  static std::int64_t number_of(TimePoint at);

  mutable std::mutex mutex_;
  std::vector<Counted> ring_;  // by number % kSlices; empty until the first request has ended
};

}  // namespace tandem
