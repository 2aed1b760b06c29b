// T3: the ranks' sums with residual and RMSNorm, the operation that tensor parallelism adds to
// every half of a layer.
#pragma once

#include "base/dtype.h"
#include "base/status.h"
#include "tools/bench/common/bench_report.h"
#include "tools/cli/settings.h"

namespace tandem {

// Checks the operation on the settings' devices against sums in double, then times it, recorded, by
// its bytes. If they are GPUs (`on_gpus`), by our own kernels and through NCCL, with NCCL's sum
// alone beside them; only then are ours judged.
Status measure_all_reduce(const EngineSettings& settings, bool on_gpus, DType dtype, int rounds,
                          BenchReport& report);

}  // namespace tandem
