// Estimates when the layers of an adapter that is being read will be present, from the speed of
// those that are.
//
// Pure: it gets all times as arguments, and reads no clock. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace tandem {

class ReadingPace {
 public:
  // For layers of these sizes in bytes; one without bytes is present.
  ReadingPace(std::vector<std::uint64_t> layer_bytes, TimePoint begin);

  void layer_there(std::size_t layer, TimePoint now);
  // [layers]: seconds from now until each is present, 0 if it is; empty: all are. The rest is
  // expected in order, at the speed so far. A layer that is overdue is expected to take as long
  // again, so that a stalled disk is estimated slower and slower.
  std::vector<double> seconds_left(TimePoint now) const;
  // Seconds until all are present; does not allocate.
  double rest(TimePoint now) const;

 private:
  // The next `bytes` take offset_s + bytes * byte_s.
  struct Speed {
    double byte_s, offset_s;
  };
  Speed speed(TimePoint now) const;

  std::vector<std::uint64_t> bytes_left_;  // [layers]
  std::uint64_t bytes_there_ = 0;
  TimePoint begin_, last_;  // last_: when the latest present layer came
};

}  // namespace tandem
