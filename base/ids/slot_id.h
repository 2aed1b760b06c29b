// Which row of the device's adapter tables an adapter has, from the device tier to the step that
// uses it. Kernels read the plain number (gpu/ops.h: LoraSegment).
#pragma once

#include "base/ids/strong_id.h"

namespace tandem {

using SlotId = StrongId<struct SlotTag>;

}  // namespace tandem
