// T5 to T7: load on engines whose model is shared by N devices.
#pragma once

#include "base/status.h"
#include "engine/model/spec/model_spec.h"
#include "tools/bench/common/bench_report.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

struct ShardServing {
  const EngineSettings& settings;  // tensor_parallel: N
  const ModelSpec& spec;
  DType dtype = DType::bf16;
  bool on_gpu = false;  // else all sizes are smaller, and speed is not judged
};

// T5: C1, C2, C4 and C8 of the cold start benchmark on N devices.
Status measure_sharded_cold_starts(const ShardServing& serving, BenchReport& report);
// T6: requests per second with many adapters in the host tier, N devices relative to one,
// alternating.
Status measure_sharded_throughput(const ShardServing& serving, BenchReport& report);
// T7: greedy answers with adapters, compared between N devices and one device.
Status compare_sharded_answers(const ShardServing& serving, BenchReport& report);

}  // namespace tandem
