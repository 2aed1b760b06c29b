// What a step reads of adapters that are on the device.
#pragma once

#include "engine/model/step/layer_waits.h"
#include "gpu/ops.h"

namespace tandem {

// Where the adapters' matrices are: [slots][layers][kNumModules] in device memory.
struct AdapterTable {
  const LoraMatrix* matrices = nullptr;
  LoraPages pages;
  // Before its layers read adapters that are on their way. Null: all are there. A step that waits
  // is not for a recording of the whole.
  LayerWaits* waits = nullptr;
};

}  // namespace tandem
