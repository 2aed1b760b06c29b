// Throughput with many more adapters than fit on the device.
#pragma once

#include "base/dtype.h"
#include "base/status.h"
#include "engine/model/spec/model_spec.h"
#include "tools/bench/common/bench_report.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

// Alternates S-LoRA's S2 workload (Llama-7B, ranks 64, 32, 16, 8 repeating) over 2,000 adapters in
// the host tier and over 5. Adds the bar G9, and its value if steps only read memory.
Status measure_many_adapters(const EngineSettings& settings, const ModelSpec& spec, DType dtype,
                             BenchReport& report);

}  // namespace tandem
