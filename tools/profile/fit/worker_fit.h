// Fits the costs of a CPU worker to timed jobs: pure arithmetic.
//
//   seconds = job groups + max(0, slowness stream - ahead gap) + flop FLOPs / cores
//
// Weights are read at the memory's speed divided by `slowness`. A part is read before the doorbell,
// during `ahead` of the gap between two jobs. Separating the two requires jobs with a gap and jobs
// without one.
#pragma once

#include <vector>

namespace tandem {

struct WorkerSample {
  double groups = 1;
  double stream_s = 0;  // time in which as many cores only read the weights
  double gap_s = 0;     // from the previous job's answer to this job's doorbell
  double flops = 0;     // per core
  double seconds = 0;   // from the doorbell to the last answer; above 0
};

// Physical limits. Values outside them were disturbed during the measurement.
struct WorkerBounds {
  // Doorbell and answer each move a cache line between cores, about 40 ns.
  double least_job_s = 8e-8;
  // A worker reads no faster than plain reading; a tenth is allowed for reading ahead and for
  // noise. A worker that is eight times slower is held up by others.
  double least_slowness = 0.9;
  double most_slowness = 8;
  // AMX computes 2,048 FLOPs per cycle at 4 GHz, the most of any core so far.
  double least_flop_s = 1 / 8.2e12;
};

struct WorkerFigures {
  double job_s = 0;
  double slowness = 1;
  double ahead = 0;   // share of the gap, 0 to 1
  double flop_s = 0;  // seconds per FLOP
  double seconds(const WorkerSample& sample) const;
};

// The figures with the least sum of Huber's losses of relative residuals (robust_fit.h), within the
// bounds. Requires samples.
WorkerFigures fit_worker(const std::vector<WorkerSample>& samples, const WorkerBounds& bounds = {});

}  // namespace tandem
