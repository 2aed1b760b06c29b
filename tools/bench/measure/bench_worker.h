// Measures how long CPU workers take for a cold group's delta, through the mailbox: the loops of
// `tandem worker` in threads of this process, with doorbells rung from here.
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
  std::vector<int> cpus;  // one per worker
  int doorbell_cpu = -1;  // cpu of the thread that rings; -1: any
  DType dtype = DType::bf16;
  std::uint32_t in = 4096;                               // columns of x
  std::vector<std::uint32_t> outs = {4096, 4096, 4096};  // by module
  std::uint32_t max_rows = 128;
  std::uint32_t max_rank = 64;
  std::size_t arena_bytes = std::size_t{512} << 20;  // larger than the caches; jobs go around it
  ProductKind product = ProductKind::best;
};

struct WorkerCase {
  std::uint32_t rows = 1;
  std::uint32_t rank = 64;    // of every module
  std::uint32_t workers = 1;  // the first of the cpus are used
  JobSplit split = JobSplit::columns;
  bool xa = false;
  // Jobs are described well before their doorbell, as for a queued step, so workers have packed the
  // weights by then. With `cold` the weights become present with the doorbell, so that the time
  // includes all of reading them.
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

  // Times from the doorbell until every worker's answer is seen, `rounds` times (fewer on a machine
  // that takes seconds) after a warm-up, each with other weights and rows. Checks answers first:
  // internal if one is wrong, unavailable if one does not come.
  Result<WorkerTimes> time(const WorkerCase& it, int rounds);

 private:
  struct Impl;
  explicit WorkerBench(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// FLOP/s of products on all of these cpus together: oneDNN's of large matrices or the workers' own
// of matrices that fit in the L1 cache, whichever is faster.
Result<double> measure_product_peak(DType dtype, const std::vector<int>& cpus);

// Adds the bar C7 for 16, 64 and 128 tokens: one layer's q, k and v of rank 64 on up to 12 workers,
// with memory's speed and the products' peak measured here. `cpus`: usable by workers.
Status measure_workers_bar(const std::vector<int>& cpus, DType dtype, BenchReport& report,
                           int rounds = 200);

}  // namespace tandem
