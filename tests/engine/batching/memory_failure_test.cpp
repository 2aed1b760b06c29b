// Allocations of the engine's thread fail, one or many, anywhere in its loop: no request gets a
// wrong token, every request ends, nothing leaks, and later requests are answered as usual.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/log/log.h"
#include "tests/support/failing_memory.h"
#include "tests/support/handoff_engine.h"
#include "tests/support/sanitized.h"
#include "tests/support/small_model.h"
#include "tests/support/test_engine.h"
#include "tests/support/test_seed.h"

namespace tandem::test {
namespace {

constexpr std::int64_t kForEver = std::int64_t{1} << 60;
const int kRounds = sanitized() ? 40 : 100;

bool begins_with(const std::vector<TokenId>& whole, const std::vector<TokenId>& part) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

// Marks the engine's thread, which runs the callback: its allocations may fail from then on.
void mark_thread_of(Engine& engine) {
  may_fail_here(false);
  const auto generation = engine.submit(greedy({5, 6, 7}, 20)).value();
  generation->on_news([test = std::this_thread::get_id()] {
    if (std::this_thread::get_id() != test) may_fail_here(true);
  });
  (void)collect(*generation);
  generation->on_news({});
}

// Requests that are submitted together, with their expected answers.
class Load {
 public:
  Load(Engine& engine, std::vector<GenerationRequest> requests)
      : engine_(engine), requests_(std::move(requests)) {
    for (const GenerationRequest& request : requests_) expected_.push_back(run(engine, request));
  }

  void play() {
    std::vector<std::unique_ptr<Generation>> running;
    for (const GenerationRequest& request : requests_) {
      auto submitted = engine_.submit(request);
      ASSERT_TRUE(submitted.ok()) << submitted.status().message();
      running.push_back(std::move(*submitted));
    }
    for (std::size_t i = 0; i < running.size(); ++i) {
      const std::vector<Collected> got = collect(*running[i]);
      for (std::size_t c = 0; c < got.size(); ++c) compare(got[c], expected_[i][c], i);
    }
  }
  std::int64_t num_failed() const { return num_failed_; }

  // Checks without failures that everything works as before and that nothing is left over.
  void check_aftermath() {
    const std::int64_t before = num_failed_;
    play();
    EXPECT_EQ(num_failed_, before);
    const EngineStats stats = engine_.stats();
    EXPECT_EQ(stats.running + stats.waiting, 0);
    EXPECT_EQ(stats.pages_kv, 0);
    for (const AdapterInfo& adapter : engine_.adapters()) {
      EXPECT_EQ(adapter.running + adapter.waiting, 0) << adapter.name;
    }
  }

 private:
  void compare(const Collected& got, const Collected& expected, std::size_t request) {
    if (got.finish == FinishReason::failed) {
      ++num_failed_;
      EXPECT_NE(got.error.message().find("memory"), std::string::npos) << got.error.message();
      EXPECT_EQ(got.error.code(), StatusCode::internal);
      EXPECT_TRUE(begins_with(expected.tokens, got.tokens)) << "request " << request;
      return;
    }
    EXPECT_EQ(got.tokens, expected.tokens) << "request " << request;
    EXPECT_EQ(got.text, expected.text) << "request " << request;
    EXPECT_EQ(got.finish, expected.finish) << "request " << request;
    EXPECT_EQ(got.logprobs.size(), expected.logprobs.size()) << "request " << request;
    EXPECT_EQ(got.prompt_logprobs.size(), expected.prompt_logprobs.size()) << "request " << request;
  }

  Engine& engine_;
  std::vector<GenerationRequest> requests_;
  std::vector<std::vector<Collected>> expected_;
  std::int64_t num_failed_ = 0;
};

// Fails one allocation, or several in a row, at a random place. Returns true if any failed.
bool play_with_failures(Load& load, std::int64_t allocations_of_play, std::mt19937_64& random) {
  const auto up_to = [&](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  const std::int64_t first = up_to(allocations_of_play);
  const std::int64_t count = random() % 3 == 0 ? up_to(40) : 1;
  SCOPED_TRACE(fmt::format("allocations {} to {} fail", first, first + count - 1));
  fail_allocations(first, count);
  load.play();
  return stop_failing() > 0;
}

void torture(Engine& engine, Load& load, int rounds) {
  std::mt19937_64 random(test_seed());
  fail_allocations(kForEver, 1);
  load.play();
  const std::int64_t allocations_of_play = allocations();
  ASSERT_GT(allocations_of_play, 100);
  ASSERT_TRUE(play_with_failures(load, 1, random)) << "the very first";
  int failures = 0;
  for (int round = 0; round < rounds; ++round) {
    if (!play_with_failures(load, allocations_of_play, random)) continue;
    ++failures;
    if (failures % 8 == 0) load.check_aftermath();
    ASSERT_TRUE(engine.failure().ok()) << engine.failure().message();
    if (::testing::Test::HasFailure()) return;
  }
  load.check_aftermath();
  ::testing::Test::RecordProperty("requests_lost", std::to_string(load.num_failed()));
}

// Prompts of several lengths with a common beginning and varying options.
std::vector<GenerationRequest> mixed_requests(const std::vector<std::string>& adapters) {
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 6; ++i) {
    std::vector<TokenId> prompt;
    for (int t = 0; t < 8 + 7 * i; ++t) prompt.push_back(t < 20 ? 40 + t : 40 + 9 * t + i);
    const auto adapter = static_cast<std::size_t>(i) % (adapters.size() + 1);
    requests.push_back(
        greedy(std::move(prompt), 6 + i, adapter == 0 ? std::string() : adapters[adapter - 1]));
  }
  requests[1].n = 2;
  requests[1].num_logprobs = 2;
  requests[2].prompt_logprobs = true;
  requests[2].num_logprobs = 1;
  requests[3].sampling.presence_penalty = 0.5;
  requests[4].stop = {"never said"};
  requests[5].sampling.logit_bias = {{77, -5.0F}};
  return requests;
}

class MemoryFailure : public ::testing::Test {
 protected:
  void SetUp() override { log::set_level(log::Level::off); }
  void TearDown() override {
    (void)stop_failing();
    log::set_level(log::Level::info);
  }

  static std::vector<std::string> add_adapters(Engine& engine, const ModelSpec& config, int n) {
    std::vector<std::string> names;
    for (int i = 0; i < n; ++i) {
      names.push_back(fmt::format("a{}", i));
      Adapter adapter = make_dummy_adapter(config, DType::f32, 4 + 3 * i, {"q_proj", "down_proj"},
                                           static_cast<std::uint64_t>(i));
      EXPECT_TRUE(engine.adapter_store().add(names.back(), std::move(adapter), false, false).ok());
    }
    return names;
  }
};

// Few pages and slots: sequences are preempted, adapters come and go, prefixes are evicted.
TEST_F(MemoryFailure, EndsNoEngineAndGivesNoWrongToken) {
  EngineOptions options = small_engine_options(128);
  options.num_pages = 24;
  options.max_device_adapters = 2;
  options.max_num_batched_tokens = 32;
  const auto made = TestEngine::dummy(small_model(1), DType::f32, options);
  Engine& engine = *made->engine;
  const auto names = add_adapters(engine, made->config, 3);
  Load load(engine, mixed_requests(names));
  mark_thread_of(engine);
  torture(engine, load, kRounds);
}

TEST_F(MemoryFailure, IsOutlivedWhileWorkersComputeForAdaptersOnTheirWay) {
  const auto made = HandoffEngine::make(AdapterMode::planned, 6, 0, 0, [](EngineOptions& options) {
    options.max_device_adapters = 2;
    // A worker that was asked to end may be waited for once more.
    options.handoff.deadline_us = 300'000;
  });
  made->gate().open();
  Engine& engine = *made->engine;
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(handoff_request(i, 6 + 5 * i, 5));
  Load load(engine, std::move(requests));
  mark_thread_of(engine);
  torture(engine, load, kRounds / 3);
}

// No step ever succeeds: the engine gives up and tells all requests.
TEST_F(MemoryFailure, WithoutEndEndsTheEngineInOrder) {
  const auto made = TestEngine::dummy(small_model(1), DType::f32, small_engine_options(128));
  Engine& engine = *made->engine;
  mark_thread_of(engine);
  fail_allocations(1, kForEver);
  std::vector<std::unique_ptr<Generation>> running;
  for (int i = 0; i < 4; ++i) {
    auto submitted = engine.submit(greedy({5, 6, 7}, 50));
    if (submitted) running.push_back(std::move(*submitted));  // else the engine has ended already
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (engine.failure().ok() && std::chrono::steady_clock::now() < deadline) {
    auto submitted = engine.submit(greedy({5, 6, 7}, 50));
    if (submitted) running.push_back(std::move(*submitted));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(engine.failure().code(), StatusCode::fatal);
  for (const auto& each : running) EXPECT_EQ(collect(*each)[0].finish, FinishReason::failed);
  EXPECT_EQ(engine.submit(greedy({5}, 1)).status().code(), StatusCode::unavailable);
  EXPECT_GT(stop_failing(), 0);
}

}  // namespace
}  // namespace tandem::test
