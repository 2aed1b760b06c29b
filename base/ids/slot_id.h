// The row of the device's adapter tables that an adapter has, used from the device tier to the
// step. Kernels read the plain number (gpu/ops.h: LoraSegment).
#pragma once

#include "base/ids/strong_id.h"

namespace tandem {

using SlotId = StrongId<struct SlotTag>;

}  // namespace tandem
