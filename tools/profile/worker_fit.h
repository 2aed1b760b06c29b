// What a CPU worker costs, from jobs under the stopwatch: pure arithmetic.
//
//   seconds = job groups + max(0, slowness stream - ahead gap) + flop FLOPs / cores
//
// Weights stream at the memory's speed over `slowness`, and in part before the doorbell: in `ahead`
// of the gap between two jobs. Without jobs that follow each other at once beside others with a gap
// the two could not be told apart.
#pragma once

#include <vector>

namespace tandem {

struct WorkerSample {
  double groups = 1;
  double stream_s = 0;  // that plain reading of the weights takes as many cores
  double gap_s = 0;     // from the last job's answer to this one's doorbell
  double flops = 0;     // of each core
  double seconds = 0;   // from the doorbell to the last answer; above 0
};

// What a machine can do. A worker that is said to be beyond was measured while something else
// happened.
struct WorkerBounds {
  // A doorbell and an answer are a cache line each that goes from one core to another, some 40 ns.
  double least_job_s = 8e-8;
  // A worker reads no faster than who does nothing but read. A tenth more is for reading in
  // advance, and for the noise of both. And one that is eight times slower is held up by others.
  double least_slowness = 0.9;
  double most_slowness = 8;
  // AMX multiplies 2,048 FLOPs a cycle, at 4 GHz, the most of any core yet.
  double least_flop_s = 1 / 8.2e12;
};

struct WorkerFigures {
  double job_s = 0;
  double slowness = 1;
  double ahead = 0;   // share of the gap, 0 to 1
  double flop_s = 0;  // seconds of each FLOP
  double seconds(const WorkerSample& sample) const;
};

// Those that leave the least sum of Huber's losses of relative residuals (robust_fit.h), within the
// bounds. Requires samples.
WorkerFigures fit_worker(const std::vector<WorkerSample>& samples, const WorkerBounds& bounds = {});

}  // namespace tandem
