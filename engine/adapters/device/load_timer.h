// Times what goes over the link, from when it has nothing to do until it has nothing to do again.
#pragma once

#include <memory>
#include <optional>

#include "gpu/device.h"

namespace tandem {

// One thread.
class LoadTimer {
 public:
  struct Took {
    double model_s;  // the sum of what was added
    double seen_s;
  };

  explicit LoadTimer(Device& device);

  // The stream has nothing left to do, and copies go there next: the time counts from here.
  void begin(Stream& stream);
  // They take so long, by what is known of the link.
  void add(double model_s);
  // The stream waits for somebody else: its time says nothing.
  void forget();
  // Nothing else is to follow.
  void end(Stream& stream);

  // What has ended since; too little to tell anything is none.
  std::optional<Took> look();

 private:
  enum class State { idle, copying, ending };

  State state_ = State::idle;
  double model_s_ = 0;
  std::unique_ptr<Event> begin_, end_;
};

}  // namespace tandem
