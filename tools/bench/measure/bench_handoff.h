// What handing rows to a CPU worker and back costs beyond the wire.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "gpu/device.h"
#include "tools/bench/common/bench_report.h"

namespace tandem {

struct HandoffBench {
  std::int32_t rows = 64;
  std::int64_t width = 4096;  // of x; the answer is three times as wide
  int rounds = 300;           // round trips timed without a load, and with one
  int link_rounds = 9;        // of long copies; the median counts
  int echo_cpu = -1;          // that the thread which echoes runs on; below 0: on any
};

// Round trips of an offer and an accept (bf16, one group, one projection of three modules) with a
// thread that echoes: it answers a doorbell at once, with rows that are in the mailbox already.
// First with real answers, all of which are checked. A round trip is the time from doorbell to
// doorbell, so it holds all that the handoff adds to a layer: launches, rows out, doorbell, answer,
// rows in. Over the time that the same bytes take at the speed of long copies, measured here. Adds
// the bar C6 twice: alone, and while 64 MB loads in layer pieces run on another stream; and the
// times of few rows.
Status measure_handoff(Device& device, BenchReport& report, const HandoffBench& bench = {});

// Round trips alone, for `tandem profile`, which times them by turns with other things. One thread.
class RoundTrips {
 public:
  // `echo_cpu`: as above; the device's side runs where the calling thread may. At most 512 rows.
  static Result<std::unique_ptr<RoundTrips>> create(Device& device, std::int64_t width,
                                                    std::int32_t most_rows, int echo_cpu);
  ~RoundTrips();
  // Seconds of one, the median of `rounds`, with so many rows.
  Result<double> time(std::int32_t rows, int rounds);

 private:
  struct Impl;
  explicit RoundTrips(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
