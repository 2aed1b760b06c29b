// How long first tokens and those after them took in the last minutes, as quantiles of a few
// seconds each. Fixed memory, whatever the traffic: values are counted in classes 10 % wide.
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

  // Of one slice of time, in seconds; below 0: nothing ended in it.
  struct Quantiles {
    double median = -1, p95 = -1;
  };
  struct Slice {
    Quantiles first_token;  // from the request's arrival
    Quantiles per_token;    // after the first
    std::uint32_t requests = 0;
  };

  // A request ended. `per_token_s` is none for answers of one token.
  void add(TimePoint now, double first_token_s, std::optional<double> per_token_s);
  // Oldest first, kSlices of them; the last is the one that `now` is in.
  std::vector<Slice> slices(TimePoint now) const;

 private:
  // From 10 us on; what is longer than the last class's (about 3 hours) counts there.
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
    std::int64_t number = -1;  // of the slice, since the clock's beginning
    Counts first_token, per_token;
  };
  static std::int64_t number_of(TimePoint at);

  mutable std::mutex mutex_;
  std::vector<Counted> ring_;  // by number % kSlices; empty until the first request has ended
};

}  // namespace tandem
