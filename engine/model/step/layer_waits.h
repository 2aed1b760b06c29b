// What the layers of a step wait for of adapters that are on their way to the device.
#pragma once

#include <cstdint>

#include "gpu/device.h"

namespace tandem {

class LayerWaits {
 public:
  LayerWaits() = default;
  LayerWaits(const LayerWaits&) = delete;
  LayerWaits& operator=(const LayerWaits&) = delete;
  virtual ~LayerWaits() = default;

  // Has `stream` wait for what the layer needs. Called as the layer is enqueued, when all before it
  // has been: what is far away may first have to be put on the load's stream, which takes until
  // that has room, and the step is on its way meanwhile.
  virtual void before(std::int64_t layer, Stream& stream) = 0;
};

}  // namespace tandem
