// What handing rows to a CPU worker and back costs beyond the wire.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "gpu/device.h"
#include "tools/bench/common/bench_report.h"

namespace tandem {

struct HandoffBench {
  std::int32_t rows = 64;
  std::int64_t width = 4096;  // of x; the answer is three times as wide
  int rounds = 300;           // round trips timed without a load, and with one
  int link_rounds = 9;        // of long copies; the median counts
};

// Round trips of an offer and an accept (bf16, one group, one projection of three modules) with a
// thread that echoes: it answers a bell at once, with rows that are in the mailbox already. First
// with real answers, all of which are checked. A round trip is the time from bell to bell, so it
// holds all that the handoff adds to a layer: launches, rows out, bell, answer, rows in. Over the
// time that the same bytes take at the speed of long copies, measured here. Adds the bar C6 twice:
// alone, and while 64 MB loads in layer pieces run on another stream; and the times of few rows.
Status measure_handoff(Device& device, BenchReport& report, const HandoffBench& bench = {});

// Seconds of a round trip for each number of rows (at most 512), alone: medians. For `tandem
// profile`.
Result<std::vector<double>> time_round_trips(Device& device, std::int64_t width,
                                             const std::vector<std::int32_t>& rows, int rounds);

}  // namespace tandem
