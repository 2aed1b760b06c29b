// Throughput with far more adapters than the device holds.
#pragma once

#include "base/dtype.h"
#include "base/status.h"
#include "engine/model/spec/model_spec.h"
#include "tools/bench/common/bench_report.h"
#include "tools/cli/settings.h"

namespace tandem {

// S-LoRA's S2 workload (Llama-7B, ranks 64, 32, 16, 8 by turns) over 2,000 adapters in the host
// tier and over 5, by turns. Adds the bar G9, and what it would be if steps did nothing but read.
Status measure_many_adapters(const EngineSettings& settings, const ModelSpec& config, DType dtype,
                             BenchReport& report);

}  // namespace tandem
