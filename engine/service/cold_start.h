// The history of a cold start, that is of an adapter that a request needed and the device did not
// hold: when it was read, when each of its layers arrived, and who computed which layer of the
// steps that did not wait.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

// Times are seconds from the start of the cold start; negative: not yet, unknown, or not needed.
struct ColdStart {
  // A step with rows of the adapter that began before the whole adapter had arrived.
  struct Step {
    double begin_s = -1, end_s = -1;
    double planned_s = 0;   // the planned duration; 0: it was not planned
    std::int32_t rows = 0;  // rows that use the adapter
    // One letter per layer: c: computed by CPU workers; x: x A^T by CPU workers, the rest by the
    // GPU; g: offered to workers, but the weights had arrived and the GPU computed it; w: the GPU,
    // planned to wait for the weights; v: nobody, the step was void; ?: unknown.
    std::string who;
    std::vector<float> layers_begin_s;  // by layer
  };

  std::uint64_t number = 0;  // 1, 2, ... since the engine's start
  std::string adapter;
  std::int32_t rank = 0;
  std::uint64_t bytes = 0;
  std::int64_t began_unix_ms = 0;
  double read_begin_s = -1, read_end_s = -1;  // from the folder into the host tier
  double ordered_s = -1;                      // the load to the device was ordered
  double arrived_s = -1;                      // the whole adapter is on the device
  double first_token_s = -1;          // first token of a request that found the adapter cold
  bool failed = false;                // the adapter did not arrive
  std::vector<float> layers_there_s;  // arrival of each layer, as seen by the engine thread
  std::vector<Step> steps;            // the first steps only
};

// Returns the layer after the last one that workers computed, where the GPU takes over; -1 if they
// computed none, or the last one.
inline std::int32_t takeover_layer(const ColdStart::Step& step) {
  const std::size_t last = step.who.find_last_of("cx");
  if (last == std::string::npos || last + 1 == step.who.size()) return -1;
  return static_cast<std::int32_t>(last + 1);
}

}  // namespace tandem
