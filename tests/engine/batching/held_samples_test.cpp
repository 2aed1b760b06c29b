// An adapter is used before it is certain that its folder is unchanged: its tokens stay in the
// engine until then, and no other request waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <latch>

#include "engine/loader/weights.h"
#include "tests/support/peft_writer.h"
#include "tests/support/small_model.h"
#include "tests/support/test_device.h"
#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

class HeldSamples : public ::testing::Test {
 protected:
  HeldSamples() {
    const std::vector<std::string_view> modules = {"q_proj", "down_proj"};
    path_ = testing::write_peft_adapter(dir_, "a", config_, 16, modules, 1);
    const std::string other = testing::write_peft_adapter(dir_, "b", config_, 16, modules, 2);
    EngineOptions options = small_engine_options(256);
    options.max_device_adapters = 1;
    const Adapter one = load_peft_adapter(path_, config_, DType::f32).value();
    options.host_tier_bytes = (one.num_bytes + 8191) / 4096 * 4096;
    engine_ = Engine::create(options, config_, *make_dummy_weights(7), DType::f32, *device_,
                             *tokenizer_, clock_, nullptr)
                  .value();
    EXPECT_TRUE(engine_->load_adapter("a", path_, false, false).ok());
    want_ = run(*engine_, greedy({5, 6, 7}, 6, "a"))[0].tokens;
    want_constrained_ = run(*engine_, constrained())[0].tokens;
    EXPECT_TRUE(engine_->load_adapter("b", other, false, false).ok());
    run(*engine_, greedy({5}, 1, "b"));  // it takes the only place on the device
    EXPECT_EQ(engine_->adapter_store().find("a")->residency(), Residency::on_disk);
    // Runs on the reading thread. A model of one layer is complete when it is shown, but the check
    // of its content does not end before the test says so.
    engine_->adapter_store().on_news([this] {
      if (!hold_.exchange(false)) return;
      shown_.count_down();
      go_on_.wait();
    });
    hold_ = true;
  }
  ~HeldSamples() override {
    if (!go_on_.try_wait()) go_on_.count_down();
  }

  // Waits until the device has all of the adapter and steps with it must have ended.
  void wait_until_computed() {
    shown_.wait();
    const AdapterLease adapter = engine_->adapter_store().find("a");
    while (adapter->residency() != Residency::resident) std::this_thread::yield();
    while (engine_->stats().running == 0) std::this_thread::yield();
  }

  // Replaces the third byte of a float; returns the old one.
  char exchange_byte(char value) const {
    std::fstream weights(std::filesystem::path(path_) / "adapter_model.safetensors",
                         std::ios::in | std::ios::out | std::ios::binary);
    weights.seekg(-2, std::ios::end);
    const auto was = static_cast<char>(weights.get());
    weights.seekp(-2, std::ios::end);
    weights.put(value);
    return was;
  }

  // A request that ends by itself, while its tokens are held.
  static GenerationRequest constrained() {
    GenerationRequest request = greedy({5, 6, 7}, 40, "a");
    request.constraint = {TextConstraint::Kind::regex, "[ab]{2}[0-9]c"};
    return request;
  }

  const ModelSpec config_ = small_model(1);
  testing::TempDir dir_;
  std::string path_;
  std::unique_ptr<Device> device_ = make_test_device();
  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load("data/demo-llama").value();
  SteadyClock clock_;
  std::atomic<bool> hold_{false};
  std::latch shown_{1};
  std::latch go_on_{1};
  std::vector<TokenId> want_, want_constrained_;
  std::unique_ptr<Engine> engine_;  // destroyed first
};

TEST_F(HeldSamples, LeaveWhenTheFolderIsProvenAndHoldUpNobodyElse) {
  const auto held = engine_->submit(greedy({5, 6, 7}, 6, "a")).value();
  wait_until_computed();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run(*engine_, greedy({9, 8, 7}, 20))[0].tokens.size(), 20U);
  }
  EXPECT_FALSE(held->next(Duration::zero()).has_value());
  EXPECT_EQ(held->stats().completion_tokens, 0);
  go_on_.count_down();
  const Collected got = collect(*held)[0];
  EXPECT_TRUE(got.error.ok()) << got.error.message();
  EXPECT_EQ(got.tokens, want_);
}

TEST_F(HeldSamples, AreFollowedByTheConstraintAllTheSame) {
  ASSERT_GE(want_constrained_.size(), 2U);
  const auto held = engine_->submit(constrained()).value();
  wait_until_computed();
  EXPECT_EQ(run(*engine_, greedy({9, 8, 7}, 20))[0].tokens.size(), 20U);
  go_on_.count_down();
  const Collected got = collect(*held)[0];
  EXPECT_TRUE(got.error.ok()) << got.error.message();
  EXPECT_EQ(got.tokens, want_constrained_);
  EXPECT_EQ(got.finish, FinishReason::stop);
}

TEST_F(HeldSamples, NeverLeaveWhenTheFolderHoldsSomethingElse) {
  const char was = exchange_byte('\x11');
  const auto held = engine_->submit(greedy({5, 6, 7}, 6, "a")).value();
  wait_until_computed();
  EXPECT_EQ(run(*engine_, greedy({9, 8, 7}, 20))[0].tokens.size(), 20U);
  go_on_.count_down();
  const Collected got = collect(*held)[0];
  EXPECT_EQ(got.finish, FinishReason::failed);
  EXPECT_THAT(got.error.message(), ::testing::HasSubstr("has changed since it was loaded"));
  EXPECT_TRUE(got.tokens.empty());
  EXPECT_EQ(run(*engine_, greedy({9, 8, 7}, 3))[0].tokens.size(), 3U);
  // The failure must not be reported to a later request.
  exchange_byte(was);
  const Collected again = run(*engine_, greedy({5, 6, 7}, 6, "a"))[0];
  EXPECT_TRUE(again.error.ok()) << again.error.message();
  EXPECT_EQ(again.tokens, want_);
}

TEST_F(HeldSamples, GoWithTheirRequestWhenItIsCancelled) {
  auto held = engine_->submit(greedy({5, 6, 7}, 6, "a")).value();
  wait_until_computed();
  EXPECT_EQ(run(*engine_, greedy({9, 8, 7}, 20))[0].tokens.size(), 20U);
  held->cancel();
  const Collected got = collect(*held)[0];
  EXPECT_EQ(got.finish, FinishReason::cancelled);
  EXPECT_TRUE(got.tokens.empty());
}

}  // namespace
}  // namespace tandem::test
