// The link speed for an adapter's layer pieces into a fragmented page pool, compared with one copy
// of the same bytes.
#pragma once

#include "base/status.h"
#include "engine/model/spec/model_spec.h"
#include "gpu/device.h"
#include "tools/bench/common/bench_report.h"

namespace tandem {

// Copies a rank-64 q, k, v adapter (3 MiB per layer on 7B) like the device tier: its pieces in
// layer order, each in runs of adjacent chunks and followed by an event. Adds the bar "link".
Status measure_layer_pieces(Device& device, const ModelSpec& spec, DType dtype,
                            std::int32_t page_tokens, BenchReport& report);

}  // namespace tandem
