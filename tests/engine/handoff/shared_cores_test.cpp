// Workers share cores with the threads that read adapters from disk.
#include "engine/adapters/shared_cores.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/handoff_engine.h"

namespace tandem::test {
namespace {

// Two workers stay awake, the first on a reader's core. Loads are held back, so that workers
// compute all layers.
class SharedCoresTest : public ::testing::Test {
 protected:
  static constexpr int kAdapters = 6;
  static constexpr int kTokens = 2;
  static constexpr int kBeyond = 1000;  // a number of operations that no test reaches

  static std::unique_ptr<HandoffEngine> make() {
    return HandoffEngine::make(AdapterMode::planned, kAdapters, 0, 0, [](EngineOptions& options) {
      options.handoff.spin_ms = 60e3;
      options.handoff.readers = {.cpus = {0, 1}, .apart = 2, .beside = {1}};
    });
  }
  void serve(int adapter) {
    made_->gate().close(kBeyond);
    const auto generation = made_->engine->submit(handoff_request(adapter, 6, kTokens)).value();
    EXPECT_TRUE(collect(*generation)[0].error.ok());
    made_->settle(adapter);
  }
  std::vector<std::uint64_t> jobs() const {
    std::vector<std::uint64_t> all;
    for (const CpuWorker& worker : made_->engine->cpu_workers()) all.push_back(worker.jobs);
    return all;
  }
  SharedCores& cores() { return made_->engine->adapter_store().host_tier().cores(); }

  std::unique_ptr<HandoffEngine> made_ = make();
};

TEST_F(SharedCoresTest, AreTheReadersWhileAdaptersAreRead) {
  serve(0);
  const std::vector<std::uint64_t> at_first = jobs();
  ASSERT_EQ(at_first.size(), 2U);
  EXPECT_GT(at_first[0], 0U);
  EXPECT_GT(at_first[1], 0U);
  cores().expect(1);
  serve(1);
  const std::vector<std::uint64_t> meanwhile = jobs();
  EXPECT_EQ(meanwhile[0], at_first[0]);
  EXPECT_GT(meanwhile[1], at_first[1]);
  cores().expect(-1);
  serve(2);
  EXPECT_GT(jobs()[0], meanwhile[0]);
}

TEST_F(SharedCoresTest, AreTheWorkersWhileAStepOfTheirsIsUnderWay) {
  EXPECT_FALSE(cores().are_computing());
  made_->faults.stall_ms = 30;  // so that the step lasts long enough to be seen
  made_->gate().close(kBeyond);
  const auto generation = made_->engine->submit(handoff_request(3, 6, kTokens)).value();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!cores().are_computing()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "no step that workers have a part in";
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  made_->faults.stall_ms = 0;
  EXPECT_TRUE(collect(*generation)[0].error.ok());
  made_->settle(3);
  // Its tokens are handed out after it has ended; the next step may be running.
  while (cores().are_computing()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "it never ends";
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace
}  // namespace tandem::test
