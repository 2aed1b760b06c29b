// What became of an adapter that a request wanted and the device did not hold: when it was read,
// when each of its layers had come, and who computed which layer of the steps that did not wait.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

// Times are seconds from its beginning; below 0: not yet, not known, or it was not needed.
struct ColdStart {
  // A step with rows of the adapter that began before all of it had come.
  struct Step {
    double begin_s = -1, end_s = -1;
    double planned_s = 0;   // what it was to take; 0: it was not planned
    std::int32_t rows = 0;  // of the adapter
    // A letter for each layer: c: computed by CPU workers; x: x A^T by them, the rest by the GPU;
    // g: offered to workers, but the weights had come, and the GPU computed it; w: the GPU, which
    // was to wait for the weights; v: nobody, the step was void; ?: not known.
    std::string who;
    std::vector<float> layers_begin_s;  // by layer
  };

  std::uint64_t number = 0;  // 1, 2, ... since the engine was started
  std::string adapter;
  std::int32_t rank = 0;
  std::uint64_t bytes = 0;
  std::int64_t began_unix_ms = 0;
  double read_begin_s = -1, read_end_s = -1;  // from its folder into the host tier
  double ordered_s = -1;                      // the load to the device
  double arrived_s = -1;                      // all of it, on the device
  double first_token_s = -1;          // the first token of a request that found the adapter cold
  bool failed = false;                // it did not come
  std::vector<float> layers_there_s;  // by layer, as seen by the engine's thread
  std::vector<Step> steps;            // the first of them
};

// The first layer of the step behind all that workers computed; -1: they computed none of it, or
// its last.
inline std::int32_t takeover_layer(const ColdStart::Step& step) {
  const std::size_t last = step.who.find_last_of("cx");
  if (last == std::string::npos || last + 1 == step.who.size()) return -1;
  return static_cast<std::int32_t>(last + 1);
}

}  // namespace tandem
