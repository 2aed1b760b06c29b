// Where an engine's thread runs, and its devices' threads, beside CPU workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/loader/weights.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/small_model.h"
#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A host device. Its operations keep no core busy that is not the engine's: so does a GPU.
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

std::vector<int> kept_to(std::vector<int> engine_cpus, std::vector<int> readers,
                         bool elsewhere = true) {
  ComputesElsewhere device(elsewhere);
  const ModelConfig config = load_model_config("data/demo-llama").value();
  const auto tokenizer = Tokenizer::load("data/demo-llama").value();
  const SteadyClock clock;
  EngineOptions options = small_engine_options();
  options.handoff.engine_cpus = std::move(engine_cpus);
  options.handoff.readers.cpus = std::move(readers);
  const auto engine = Engine::create(options, config, *make_dummy_weights(1), DType::f32, device,
                                     *tokenizer, clock, nullptr)
                          .value();
  EXPECT_EQ(run(*engine, greedy({1, 2, 3}, 3))[0].tokens.size(), 3U);
  return device.kept_to;
}

TEST(OwnCores, AreWhatReadersLeaveOfThoseWithoutWorkers) {
  EXPECT_THAT(kept_to({0, 1, 2, 3}, {2, 3, 6, 7}), ElementsAre(0, 1));
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
