// How fast layer pieces of an adapter come over the link into a fragmented page pool, against one
// copy of the same bytes.
#pragma once

#include "base/status.h"
#include "engine/model/spec/model_spec.h"
#include "gpu/device.h"
#include "tools/bench/common/bench_report.h"

namespace tandem {

// A rank-64 q, k, v adapter (3 MiB a layer on 7B): its pieces in layer order, each in runs of
// adjacent chunks and with an event after it, as the device tier loads them. Adds the bar "link".
Status measure_layer_pieces(Device& device, const ModelSpec& config, DType dtype,
                            std::int32_t page_tokens, BenchReport& report);

}  // namespace tandem
