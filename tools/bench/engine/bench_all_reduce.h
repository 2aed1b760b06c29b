// T3: the ranks' sums with residual and RMSNorm, the operation that tensor parallelism adds to
// every half of a layer.
#pragma once

#include <memory>
#include <span>

#include "base/status.h"
#include "gpu/device.h"
#include "tools/bench/common/bench_report.h"

namespace tandem {

// Checks the operation on the devices against sums in double, then times it, recorded, by its
// bytes. `gpus`: the devices' numbers, for NCCL beside it, if they are GPUs; only then is it
// judged.
Status measure_all_reduce(std::span<Device* const> devices, std::span<const int> gpus, DType dtype,
                          int rounds, BenchReport& report);

}  // namespace tandem
