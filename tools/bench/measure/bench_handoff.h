// The cost of handing rows to a CPU worker and back, beyond that of the link.
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
  int link_rounds = 9;        // number of long copies; the median counts
  int echo_cpu = -1;          // cpu of the echoing thread; negative: any
};

// Times round trips of an offer and an accept (bf16, one group, one projection of three modules)
// with an echoing thread: it answers a doorbell at once, with rows that are in the mailbox already.
// Before that it computes real answers, which are all checked. A round trip is the time from one
// doorbell to the next, so it includes all that the handoff adds to a layer: launches, rows out,
// doorbell, answer, rows in. It is divided by the time for the same bytes at the speed of long
// copies, measured here. Adds the bar C6 twice, alone and while 64 MB load in layer pieces on
// another stream, and the times of few rows.
Status measure_handoff(Device& device, BenchReport& report, const HandoffBench& bench = {});

// Round trips for `tandem profile`, which alternates them with other measurements. One thread.
class RoundTrips {
 public:
  // `echo_cpu`: see above; the device's side runs where the calling thread may. At most 512 rows.
  static Result<std::unique_ptr<RoundTrips>> create(Device& device, std::int64_t width,
                                                    std::int32_t most_rows, int echo_cpu);
  ~RoundTrips();
  // Seconds of a round trip with `rows` rows; the median of `rounds`.
  Result<double> time(std::int32_t rows, int rounds);

 private:
  struct Impl;
  explicit RoundTrips(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
