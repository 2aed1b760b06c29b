// Tests on which cores an engine's thread and its devices' threads run beside CPU workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/threads/thread_cpus.h"
#include "engine/loader/weights.h"
#include "engine/model/families/registry.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/small_model.h"
#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A host device that claims to compute elsewhere, as a GPU does, on no cores but the engine's.
class ComputesElsewhere : public ForwardingDevice {
 public:
  explicit ComputesElsewhere(bool says_so)
      : ForwardingDevice(make_host_device(HostDeviceOptions()).value()),
        info_(ForwardingDevice::info()) {
    info_.is_cuda = says_so;
  }
  const DeviceInfo& info() const override { return info_; }
  void keep_to(std::span<const int> cpus) override { kept_to.assign(cpus.begin(), cpus.end()); }

  std::vector<int> kept_to;

 private:
  DeviceInfo info_;
};

// Finds the engine's thread of this process by its name.
std::vector<int> cpus_of_engine_thread() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    if (name == "engine") return cpus_of_thread(std::stoi(task.path().filename().string()));
  }
  return {};
}

// Returns the cores given to the device; `engine_thread` receives those of the engine's thread.
std::vector<int> kept_to(std::vector<int> engine_cpus, std::vector<int> readers,
                         bool elsewhere = true, std::vector<int>* engine_thread = nullptr) {
  ComputesElsewhere device(elsewhere);
  const ModelSpec config = load_model_spec("data/demo-llama").value();
  const auto tokenizer = Tokenizer::load("data/demo-llama").value();
  const SteadyClock clock;
  EngineOptions options = small_engine_options();
  options.handoff.engine_cpus = std::move(engine_cpus);
  options.handoff.readers.cpus = std::move(readers);
  const auto engine = Engine::create(options, config, *make_dummy_weights(1), DType::f32, device,
                                     *tokenizer, clock, nullptr)
                          .value();
  EXPECT_EQ(run(*engine, greedy({1, 2, 3}, 3))[0].tokens.size(), 3U);
  if (engine_thread != nullptr) *engine_thread = cpus_of_engine_thread();
  return device.kept_to;
}

TEST(OwnCores, AreWhatReadersLeaveOfThoseWithoutWorkers) {
  EXPECT_THAT(kept_to({0, 1, 2, 3}, {2, 3, 6, 7}), ElementsAre(0, 1));
}

TEST(OwnCores, HaveTheEnginesThread) {
  // Numbers of cpus that do not exist stand for others, because a test machine may have only one or
  // two.
  constexpr int kNone = 1 << 20;
  const std::vector<int> all = cpus_of_thread();
  std::vector<int> engine_thread;
  kept_to({all.back(), kNone}, {kNone + 1}, true, &engine_thread);
  EXPECT_THAT(engine_thread, ElementsAre(all.back()));
  kept_to({all.back(), kNone}, {kNone + 1}, false, &engine_thread);
  EXPECT_EQ(engine_thread, all) << "the device computes there";
}

TEST(OwnCores, AreAllOfThemWhereOthersMayMeanTheSame) {
  EXPECT_THAT(kept_to({0, 1, 2, 3}, {}), IsEmpty());
}

TEST(OwnCores, AreAllOfThemWhereOnlyOneWouldBeLeft) {
  EXPECT_THAT(kept_to({0, 1}, {1, 2}), IsEmpty());
}

TEST(OwnCores, AreAllOfThemOnADeviceThatComputesThere) {
  EXPECT_THAT(kept_to({0, 1, 2, 3}, {2, 3}, false), IsEmpty());
}

}  // namespace
}  // namespace tandem::test
