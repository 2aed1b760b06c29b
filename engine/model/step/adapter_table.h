// The adapters on the device, as a step reads them.
#pragma once

#include "engine/model/step/layer_waits.h"
#include "gpu/ops.h"

namespace tandem {

// The adapters' matrices: [slots][layers][modules] in device memory.
struct AdapterTable {
  const LoraMatrix* matrices = nullptr;
  LoraPages pages;
  // Waits for adapters that are still arriving before a layer reads them. Null: all have arrived. A
  // step that waits cannot be recorded as one graph.
  LayerWaits* waits = nullptr;
};

}  // namespace tandem
