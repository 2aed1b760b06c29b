#include "tools/bench/measure/bench_worker.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(BenchWorker, TimesAnswersThatItHasChecked) {
  WorkerBenchOptions options;
  options.cpus = {0, 0};
  options.in = 1024;
  options.outs = {128, 64};
  options.max_rows = 8;
  options.max_rank = 16;
  options.arena_bytes = 1 << 20;
  const auto bench = WorkerBench::create(options);
  ASSERT_TRUE(bench.ok()) << bench.status().message();
  for (const bool xa : {false, true}) {
    const auto times = (*bench)->time({.rows = 5, .rank = 12, .workers = 2, .xa = xa}, 3);
    ASSERT_TRUE(times.ok()) << times.status().message();
    EXPECT_EQ(times->samples.values.size(), 3U);
    EXPECT_GT(times->median_s, 0);
    EXPECT_GE(times->p99_s, times->median_s);
    EXPECT_EQ(times->weight_bytes, 12U * 2 * (2 * 1024 + (xa ? 0 : 192)));
  }
  const auto late = (*bench)->time({.rows = 2, .rank = 3, .workers = 1, .cold = false}, 2);
  EXPECT_TRUE(late.ok()) << late.status().message();
  EXPECT_EQ((*bench)->time({.rows = 9, .rank = 1, .workers = 1}, 1).status().code(),
            StatusCode::invalid_argument);
}

}  // namespace
}  // namespace tandem
