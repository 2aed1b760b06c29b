// Measures transfers over the link, from one idle moment of the link to the next.
#pragma once

#include <memory>
#include <optional>

#include "gpu/device.h"

namespace tandem {

// For use by one thread.
class LoadTimer {
 public:
  struct Took {
    double model_s;  // the sum of the added times
    double seen_s;
  };

  explicit LoadTimer(Device& device);

  // Starts the time. The stream is idle, and copies are enqueued next.
  void begin(Stream& stream);
  // Adds the expected time of a copy.
  void add(double model_s);
  // Drops the measurement, as the stream waits for something other than the link.
  void forget();
  // Ends the measurement; no more copies follow.
  void end(Stream& stream);

  // The measurement that has ended since the last call; one that is too short counts as none.
  std::optional<Took> look();

 private:
  enum class State { idle, copying, ending };

  State state_ = State::idle;
  double model_s_ = 0;
  std::unique_ptr<Event> begin_, end_;
};

}  // namespace tandem
