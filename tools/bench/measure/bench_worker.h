// How long CPU workers take for a cold group's delta, through the mailbox: the same loops as in
// `tandem worker`, in threads, with doorbells rung from here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "cpu_lora/worker/product.h"
#include "shm/mailbox.h"
#include "tools/bench/common/bench_report.h"

namespace tandem {

struct WorkerBenchOptions {
  std::vector<int> cpus;  // of the workers, one each
  int doorbell_cpu = -1;  // of the thread that rings; -1: wherever
  DType dtype = DType::bf16;
  std::uint32_t in = 4096;                               // columns of x
  std::vector<std::uint32_t> outs = {4096, 4096, 4096};  // of each module
  std::uint32_t max_rows = 128;
  std::uint32_t max_rank = 64;
  std::size_t arena_bytes = std::size_t{512} << 20;  // jobs go round it: no cache holds it
  ProductKind product = ProductKind::best;
};

struct WorkerCase {
  std::uint32_t rows = 1;
  std::uint32_t rank = 64;    // of every module
  std::uint32_t workers = 1;  // the first so many of the cpus'
  JobSplit split = JobSplit::columns;
  bool xa = false;
  // Jobs are described well before their doorbell, as in a step that is queued. Workers then have
  // the weights packed, but for `cold`: the weights count as there from the doorbell on, so that
  // all of reading them is in the time.
  bool cold = true;
};

struct WorkerTimes {
  double median_s = 0, p99_s = 0;
  std::size_t weight_bytes = 0;
  double flops = 0;
  Samples samples;  // microseconds
};

class WorkerBench {
 public:
  static Result<std::unique_ptr<WorkerBench>> create(const WorkerBenchOptions& options);
  ~WorkerBench();

  // From the doorbell until every worker's answer is seen, `rounds` times after a few that do not
  // count, each with other weights and other rows; fewer on a machine that takes seconds. First
  // answers are checked: internal if one is wrong, unavailable if one does not come.
  Result<WorkerTimes> time(const WorkerCase& it, int rounds);

 private:
  struct Impl;
  explicit WorkerBench(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// FLOP/s of products on these cpus together: oneDNN's of large matrices, or the workers' own of
// matrices that the first cache holds, whichever is faster.
Result<double> measure_product_peak(DType dtype, const std::vector<int>& cpus);

// Adds the bar C7, of 16, 64 and 128 tokens: one layer's q, k and v of rank 64 on up to 12 workers,
// with memory's speed and the products' peak measured here. `cpus`: that workers may have.
Status measure_workers_bar(const std::vector<int>& cpus, DType dtype, BenchReport& report,
                           int rounds = 200);

}  // namespace tandem
