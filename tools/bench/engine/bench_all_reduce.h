// T3: the sum over ranks with residual and RMSNorm, which tensor parallelism adds to each half of a
// layer.
#pragma once

#include "base/dtype.h"
#include "base/status.h"
#include "tools/bench/common/bench_report.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

// Checks the operation on the settings' devices against sums in double, then times it by its bytes
// in a recorded graph. On GPUs (`on_gpus`) it times our own kernels and NCCL, and NCCL's sum alone
// for comparison; only then are our kernels judged.
Status measure_all_reduce(const EngineSettings& settings, bool on_gpus, DType dtype, int rounds,
                          BenchReport& report);

}  // namespace tandem
