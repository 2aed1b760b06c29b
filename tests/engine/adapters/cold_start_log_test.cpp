#include "engine/adapters/cold_start_log.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "engine/adapters/host_tier.h"
#include "tests/support/test_device.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;

// Three layers whose content is never read: the log uses only identity, name and sizes.
std::unique_ptr<ServedAdapter> adapter_of(const std::string& name) {
  Adapter contents;
  contents.max_rank = 16;
  contents.num_bytes = 4096;
  contents.layers = AdapterLayers(3, 1);
  Adapter part = contents;
  static const std::unique_ptr<Device> device = test::make_test_device();
  static const std::shared_ptr<HostTier> host = HostTier::create(*device, 1 << 16).value();
  return std::make_unique<ServedAdapter>(name, std::move(contents), std::move(part), false, false,
                                         host);
}

TEST(ColdStartLog, TellsWhenEachThingHappenedFromTheBeginningOn) {
  ManualClock clock;
  ColdStartLog log(clock);
  const auto adapter = adapter_of("a");
  clock.advance(milliseconds(1000));
  log.read_begins(*adapter);
  clock.advance(milliseconds(5));
  log.load_ordered(*adapter);
  clock.advance(milliseconds(5));
  log.layer_there(*adapter, 1);
  log.read_ended(*adapter, true);
  clock.advance(milliseconds(10));
  log.layer_there(*adapter, 0);
  log.load_ended(*adapter, true);
  const auto starts = log.list();
  ASSERT_EQ(starts.size(), 1U);
  const ColdStart& start = starts[0];
  EXPECT_EQ(start.number, 1U);
  EXPECT_EQ(start.adapter, "a");
  EXPECT_EQ(start.rank, 16);
  EXPECT_DOUBLE_EQ(start.read_begin_s, 0);
  EXPECT_DOUBLE_EQ(start.read_end_s, 0.010);
  EXPECT_DOUBLE_EQ(start.ordered_s, 0.005);
  EXPECT_DOUBLE_EQ(start.arrived_s, 0.020);
  EXPECT_FLOAT_EQ(start.layers_there_s[0], 0.020F);
  EXPECT_FLOAT_EQ(start.layers_there_s[1], 0.010F);
  EXPECT_FLOAT_EQ(start.layers_there_s[2], 0.020F) << "nobody saw it come: at the latest then";
  EXPECT_FALSE(start.failed);
}

TEST(ColdStartLog, TellsAsTheArrivalWhenTheLastLayerWasSeenNotWhenTheStepEnded) {
  ManualClock clock;
  ColdStartLog log(clock);
  const auto adapter = adapter_of("a");
  log.load_ordered(*adapter);
  for (const std::size_t layer : {0, 2, 1}) {
    clock.advance(milliseconds(10));
    log.layer_there(*adapter, layer);
  }
  clock.advance(milliseconds(100));
  log.load_ended(*adapter, true);
  EXPECT_FLOAT_EQ(static_cast<float>(log.list()[0].arrived_s), 0.030F);
}

// Most steps that begin before the weights have arrived end after that.
TEST(ColdStartLog, TakesAStepThatEndsAfterTheLoad) {
  ManualClock clock;
  ColdStartLog log(clock);
  const auto adapter = adapter_of("a");
  log.load_ordered(*adapter);
  clock.advance(milliseconds(2));
  log.load_ended(*adapter, true);
  clock.advance(milliseconds(8));
  ColdStart::Step step;
  step.who = "cxg";
  step.layers_begin_s = {0.001F, 0.003F, -1.0F};
  log.step_ended(*adapter, 0.006, step);
  const ColdStart start = log.list()[0];
  ASSERT_EQ(start.steps.size(), 1U);
  EXPECT_DOUBLE_EQ(start.steps[0].begin_s, 0.004);
  EXPECT_DOUBLE_EQ(start.steps[0].end_s, 0.010);
  EXPECT_FLOAT_EQ(start.steps[0].layers_begin_s[1], 0.007F);
  EXPECT_LT(start.steps[0].layers_begin_s[2], 0) << "not known";
  EXPECT_EQ(takeover_layer(start.steps[0]), 2);
}

TEST(ColdStartLog, TellsTheFirstTokenOfTheFirstRequest) {
  ManualClock clock;
  ColdStartLog log(clock);
  const auto adapter = adapter_of("a");
  log.first_token(*adapter);  // belongs to a load that is forgotten
  log.load_ordered(*adapter);
  EXPECT_LT(log.list()[0].first_token_s, 0) << "not yet";
  clock.advance(milliseconds(17));
  log.first_token(*adapter);
  clock.advance(milliseconds(20));
  log.first_token(*adapter);
  EXPECT_DOUBLE_EQ(log.list()[0].first_token_s, 0.017);
}

TEST(ColdStartLog, KnowsWhereTheGpuTookOver) {
  const auto takeover = [](const char* who) {
    ColdStart::Step step;
    step.who = who;
    return takeover_layer(step);
  };
  EXPECT_EQ(takeover("ccgg"), 2);
  EXPECT_EQ(takeover("cgcw"), 3);
  EXPECT_EQ(takeover("wwww"), -1);
  EXPECT_EQ(takeover("gggc"), -1);
  EXPECT_EQ(takeover(""), -1);
}

TEST(ColdStartLog, KeepsTheLastOnesAndTellsThoseOfOneAdapterApart) {
  ManualClock clock;
  ColdStartLog log(clock);
  const auto adapter = adapter_of("again");
  for (std::size_t i = 0; i < ColdStartLog::kMostStarts + 2; ++i) {
    log.load_ordered(*adapter);
    clock.advance(milliseconds(1));
    log.load_ended(*adapter, i % 2 == 0);
  }
  const auto starts = log.list();
  ASSERT_EQ(starts.size(), ColdStartLog::kMostStarts);
  EXPECT_EQ(starts.front().number, 3U);
  EXPECT_FALSE(starts.front().failed);
  EXPECT_TRUE(starts.back().failed);
  for (std::size_t i = 0; i < 2 * ColdStartLog::kMostSteps; ++i) log.step_ended(*adapter, 0, {});
  EXPECT_EQ(log.list().back().steps.size(), ColdStartLog::kMostSteps);
  log.forget();
  EXPECT_TRUE(log.list().empty());
  log.step_ended(*adapter, 0, {});  // belongs to a load that is forgotten
  log.load_ended(*adapter, true);
  EXPECT_TRUE(log.list().empty());
}

TEST(ColdStartLog, TakesALoadLongAfterAReadingForAnotherColdStart) {
  ManualClock clock;
  ColdStartLog log(clock);
  const auto adapter = adapter_of("a");
  log.read_begins(*adapter);
  log.read_ended(*adapter, true);
  clock.advance(std::chrono::seconds(60));
  log.load_ordered(*adapter);
  const auto starts = log.list();
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_LT(starts[1].read_begin_s, 0);
  EXPECT_DOUBLE_EQ(starts[1].ordered_s, 0);
}

}  // namespace
}  // namespace tandem
