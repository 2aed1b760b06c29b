// When the layers of an adapter that is being read will be there, by how fast those came that are.
//
// Pure: told of times, it asks no clock. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace tandem {

class ReadingPace {
 public:
  // Of so many bytes each; one without any is there.
  ReadingPace(std::vector<std::uint64_t> layer_bytes, TimePoint begin);

  void layer_there(std::size_t layer, TimePoint now);
  // [layers]: seconds from now until each is there, 0 of those that are; empty: all are. The rest
  // comes in its order, as fast as what has come. What should have come and has not is expected to
  // take as long again: a disk that stands still is taken for slower and slower.
  std::vector<double> seconds_left(TimePoint now) const;
  // Until all are; takes no memory.
  double rest(TimePoint now) const;

 private:
  // The next `bytes` are there in offset_s + bytes * byte_s.
  struct Speed {
    double byte_s, offset_s;
  };
  Speed speed(TimePoint now) const;

  std::vector<std::uint64_t> bytes_left_;  // [layers]
  std::uint64_t bytes_there_ = 0;
  TimePoint begin_, last_;  // when the last that is there came
};

}  // namespace tandem
