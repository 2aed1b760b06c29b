// Answers of megabytes are written one after another, and calls with immediate answers do not wait
// for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "server_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

constexpr int kLongAnswers = 6;

// More than a megabyte as JSON.
std::vector<TokenLogprob> many_logprobs() {
  TokenLogprob token;
  token.token = 'a';
  for (int i = 0; i < 20; ++i) token.top.emplace_back('b' + i, -0.125F * static_cast<float>(i));
  return std::vector<TokenLogprob>(6000, token);
}

class LongAnswers : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    options.max_answer_bytes = options.max_answers_bytes = std::uint64_t{8} << 30;
    service.script = [](FakeRun& run) {
      if (run.request.num_logprobs > 0) return;  // answered later by the test
      run.say("Hello");
      run.finish();
    };
    start();
    for (int i = 0; i < kLongAnswers; ++i) {
      clients_.emplace_back([this] {
        const auto answer =
            post(port, "/v1/completions", {{"model", "base"}, {"prompt", "x"}, {"logprobs", 5}});
        EXPECT_EQ(answer.status, 200);
        EXPECT_GT(answer.body.size(), std::size_t{1} << 20);
        ++finished_;
      });
    }
    for (int i = 0; i < kLongAnswers; ++i) runs_.push_back(service.run(std::size_t(i)));
    for (const auto& run : runs_) {
      OutputDelta delta;
      delta.logprobs = many_logprobs();
      delta.finish = FinishReason::length;
      run->push(std::move(delta));
    }
  }
  void TearDown() override {
    for (std::thread& client : clients_) client.join();
    ServerTest::TearDown();
  }

  std::atomic<int> finished_{0};
  std::vector<std::shared_ptr<FakeRun>> runs_;
  std::vector<std::thread> clients_;
};

TEST_F(LongAnswers, HoldNoShortCallUp) {
  double longest_ms = 0;
  int calls = 0;
  int least = kLongAnswers;  // minimum number of long answers that ended beside a short call
  for (; finished_ < kLongAnswers; ++calls) {
    const int before = finished_;
    const auto begin = steady_clock::now();
    EXPECT_EQ(post(port, "/v1/completions", {{"model", "base"}, {"prompt", "x"}}).status, 200);
    least = std::min(least, finished_ - before);
    const std::chrono::duration<double, std::milli> took = steady_clock::now() - begin;
    longest_ms = std::max(longest_ms, took.count());
  }
  EXPECT_LE(least, kLongAnswers / 2) << "short calls waited for their lane";
  std::printf("%d short calls beside %d long answers, the slowest in %.1f ms\n", calls,
              kLongAnswers, longest_ms);
}

}  // namespace
}  // namespace tandem
