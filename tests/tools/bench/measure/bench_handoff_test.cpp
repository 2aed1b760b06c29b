// A small run of the handoff's benchmark: it checks, times and judges. TANDEM_TEST_DEVICE=cuda runs
// the full one and prints the results.
#include "tools/bench/measure/bench_handoff.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/test_device.h"

namespace tandem {
namespace {

TEST(BenchHandoff, TimesRoundTripsAloneAndDuringALoad) {
  const auto device = test::make_test_device();
  HandoffBench bench;
  if (!device->info().is_cuda) bench = {8, 64, 20, 1};
  BenchReport report("handoff", "test");
  const Status status = measure_handoff(*device, report, bench);
  ASSERT_TRUE(status.ok()) << status.message();
  std::printf("%s\n", report.table().c_str());
  const auto json = report.to_json();
  ASSERT_EQ(json["bars"].size(), 2U);
  for (const auto& bar : json["bars"]) {
    EXPECT_EQ(bar["id"], "C6");
    EXPECT_GT(bar["value"].get<double>(), 0);
  }
}

}  // namespace
}  // namespace tandem
