// Tests steps of an executor with an adapter that is still loading and CPU workers in threads. The
// load is held back, and plans hand over if they can.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/adapters/adapter_store.h"
#include "engine/executor/executor.h"
#include "engine/loader/weights.h"
#include "tests/support/failing_device.h"
#include "tests/support/in_process_pool.h"
#include "tests/support/small_model.h"
#include "tests/support/test_device.h"

namespace tandem::test {
namespace {

constexpr std::int32_t kPageTokens = 4;
constexpr std::int32_t kRows = 7;

class ColdStep : public ::testing::Test {
 protected:
  ~ColdStep() override { end(); }
  void end() {
    if (executor_ != nullptr) executor_->tier().loads().first().stream().let_go();
    executor_.reset();
    store_.reset();
    pool_.reset();
    word_ = Buffer();
    devices_.clear();
  }

  void make(int num_devices, const PlanLessons& lessons = {}) {
    std::vector<Device*> devices;
    for (int rank = 0; rank < num_devices; ++rank) {
      devices_.push_back(std::make_unique<FailingDevice>(make_test_device(rank)));
      devices.push_back(devices_.back().get());
    }
    const PoolLayout layout =
        PoolLayout::of(shape_of_shard(config_, num_devices), DType::f32, kPageTokens);
    pool_ = std::make_unique<PagePool>(200, kPageTokens, layout.chunks_per_page);
    AdapterStoreOptions stored;
    stored.num_devices = num_devices;
    store_ = AdapterStore::create(*devices.front(), config_, DType::f32, stored).value();
    ExecutorOptions options;
    options.model = {64, 32, 128, 16};
    options.step = {64, 8, 32, 256, 1024, 64};
    options.max_device_adapters = 2;
    options.handoff = in_process_workers(1, faults_);
    options.handoff.lessons.plans = lessons;
    options.handoff.spin_ms = 60e3;
    options.handoff.deadline_us = 25'000'000;  // long enough for a sanitizer on a busy machine
    options.handoff.costs.link_bytes_per_s = 1e3;
    options.handoff.costs.worker_job_s = 0;
    options.handoff.costs.trip_s = 0;
    executor_ = Executor::create(options, config_, *make_dummy_weights(7), DType::f32, devices,
                                 *pool_, store_->host_tier(), clock_, nullptr)
                    .value();
    word_ = devices_.front()->allocate_pinned(64, "word").value();
  }
  AdapterLease add(const std::string& name) {
    Adapter adapter = make_dummy_adapter(config_, DType::f32, 16, {"q_proj", "v_proj"}, 11);
    EXPECT_TRUE(store_->add(name, std::move(adapter), false, false).ok());
    auto* const word = reinterpret_cast<std::uint32_t*>(word_.data());
    *word = 0;
    executor_->tier().loads().first().stream().hold(word, 1);
    return store_->find(name);
  }
  // A prompt with the adapter, in pages that nothing else uses.
  void enqueue(const AdapterLease& adapter) {
    StepPlan plan;
    StepPlan::Entry entry;
    entry.tokens = {0, kRows};
    plan.tokens.resize(kRows);
    std::iota(plan.tokens.begin(), plan.tokens.end(), TokenId(5));
    entry.pages = {0, 2};
    plan.pages = {PageId(0), PageId(1)};
    entry.samples = {0, 1};
    plan.samples.push_back({kRows - 1, {}});
    entry.adapter = executor_->tier().slot(*adapter);
    plan.entries.push_back(entry);
    executor_->enqueue(plan);
  }

  const ModelSpec config_ = small_model(3);
  ManualClock clock_;
  WorkerFaults faults_;
  std::vector<std::unique_ptr<FailingDevice>> devices_;
  Buffer word_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<AdapterStore> store_;
  std::unique_ptr<Executor> executor_;
};

// Until then a device may still accept what the workers write.
TEST_F(ColdStep, ThatIsGivenUpKeepsItsWorkersUntilAllDevicesHaveEndedIt) {
  make(2);
  const AdapterLease adapter = add("a");
  ASSERT_EQ(executor_->tier().start(adapter), DeviceTier::Start::on_its_way);
  enqueue(adapter);
  const HandoffCounts& counts = executor_->handoff()->counts();
  std::vector<std::uint64_t> breaks;  // when the streams of the devices are waited for, in order
  for (const auto& device : devices_) {
    device->on_synchronize([&] { breaks.push_back(counts.breaks); });
  }
  executor_->tier().loads().first().stream().let_go();
  EXPECT_TRUE(executor_->abandon().ok());
  for (const auto& device : devices_) device->on_synchronize(nullptr);
  ASSERT_GE(breaks.size(), 2U);
  EXPECT_EQ(breaks[0], 0U);
  EXPECT_EQ(breaks[1], 0U);
  EXPECT_EQ(counts.breaks, 1U) << "the step had handed nothing over";
}

TEST_F(ColdStep, GoesTheWayThatWasChosenWhenItsLoadsWereOrdered) {
  const auto admit = [&](DeviceTier::Turn& turn, const AdapterLease& adapter) {
    EXPECT_EQ(turn.reserve(adapter), DeviceTier::Start::on_its_way);
    const AdmissionPlan plan = executor_->handoff()->admission(
        {}, std::vector<AdapterRows>{{adapter, kRows}}, 0, 0, executor_->tier().loads().first());
    EXPECT_EQ(plan.steps.size(), 1U);
    EXPECT_EQ(plan.steps.at(0).adapters, std::vector<std::int32_t>{0});
    turn.enqueue(plan.order);
    return plan.steps.at(0).chosen;
  };
  HandoffStep passed;
  make(1);
  {
    DeviceTier::Turn turn(executor_->tier());
    passed.chosen = admit(turn, add("a"));
    EXPECT_NE(passed.chosen.way, PlanWay::wait);
  }
  end();
  // Waiting is so slow that it is tried once in a million steps, and in the next one.
  PlanLessons lessons;
  lessons.seen.push_back({passed.chosen.situation, {{{1}, {1}, {1}}}, 999'999, 0});
  make(1, lessons);
  const AdapterLease adapter = add("a");
  {
    DeviceTier::Turn turn(executor_->tier());
    EXPECT_EQ(admit(turn, adapter).way, PlanWay::wait);
  }
  Handoff& handoff = *executor_->handoff();
  handoff.learner().pass(passed);  // a step that is chosen from here on hands over again
  enqueue(adapter);
  EXPECT_TRUE(executor_->wait().status.ok());
  EXPECT_EQ(handoff.counts().steps, 0U);
  const AdapterLease other = add("b");
  ASSERT_EQ(executor_->tier().start(other), DeviceTier::Start::on_its_way);
  enqueue(other);
  EXPECT_TRUE(executor_->wait().status.ok());
  EXPECT_EQ(handoff.counts().steps, 1U) << "a step without an admission";
}

}  // namespace
}  // namespace tandem::test
