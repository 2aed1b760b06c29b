// Lets the layers of a step wait for adapters that are still arriving on the device.
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

  // Makes `stream` wait for the weights that the layer needs. Called when the layer is about to be
  // enqueued and all layers before it have been: this may first enqueue a late piece on the load's
  // stream and block until that has room, while the device computes the step's earlier layers.
  virtual void before(std::int64_t layer, Stream& stream) = 0;
};

}  // namespace tandem
