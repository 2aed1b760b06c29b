// The cost of adapters at the embedding and the head.
#pragma once

#include "base/dtype.h"
#include "base/status.h"
#include "engine/model/spec/model_spec.h"
#include "tools/bench/common/bench_report.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

// Times decode steps of 32 sequences on a GPU, `rounds` of each, by turns: with distinct adapters
// of rank 64 on all modules within layers, with the same beside LoRA on embedding and head, without
// adapters, and with whole heads. Adds the bars A1 and A2.
Status measure_outer_modules(const EngineSettings& settings, const ModelSpec& spec, DType dtype,
                             int rounds, BenchReport& report);

}  // namespace tandem
