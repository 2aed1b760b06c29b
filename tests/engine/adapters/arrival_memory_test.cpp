// Allocations fail, one or all, anywhere on the thread that reads an arriving adapter: a waiting
// request gets its text or an error, and the next arrival works as usual.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "base/log/log.h"
#include "tests/engine/adapters/arriving_adapters.h"
#include "tests/support/failing_memory.h"
#include "tests/support/sanitized.h"
#include "tests/support/skip_under_tsan.h"
#include "tests/support/test_seed.h"

namespace tandem::test {
namespace {

constexpr std::int64_t kForEver = std::int64_t{1} << 60;
const int kRounds = sanitized() ? 10 : 40;

class ArrivalWithoutMemory : public ArrivingAdapters {
 protected:
  void SetUp() override {
    log::set_level(log::Level::off);
    may_fail_here(false);
  }
  void TearDown() override {
    (void)stop_failing();
    log::set_level(log::Level::info);
  }

  // Does what RegistryAdapters does with an arrival, on a thread whose allocations may fail.
  std::future<void> bring_in(Sender& sender) {
    return std::async(std::launch::async, [&] {
      may_fail_here(true);
      try {
        const Status read = arrival_->read(sender.folder(), sender.writing);
        if (read && arrival_->is_served()) {
          arrival_->settle(right_);
        } else {
          arrival_->fail({StatusCode::unavailable, "nobody gives this adapter any more"});
        }
      } catch (const std::bad_alloc&) {
        arrival_.reset();
      }
    });
  }
  bool is_over(const std::future<void>& future) const {
    return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  void expect_nothing_left() {
    (void)engine_->unload_adapter("a");
    EXPECT_TRUE(wait_until([&] { return engine_->adapter_store().host_tier().used() == 0; }));
    EXPECT_EQ(engine_->stats().running + engine_->stats().waiting, 0);
  }
  void expect_right_or_failed(Generation& generation) {
    const Collected got = collect(generation)[0];
    if (got.error.ok()) {
      EXPECT_EQ(got.tokens, expected_);
      ++num_right_;
    } else {
      EXPECT_TRUE(got.tokens.empty()) << "no token before all of it is proven";
      ++num_failed_;
    }
  }

  // Makes one arrival in which the `fails`-th allocation fails; returns the number of allocations.
  std::int64_t arrive(const std::string& folder, std::int64_t fails, bool is_late) {
    expect(is_late ? AdapterArrival::kLongestShown : kLongestHeld);
    Sender sends(right_, dir_.path() / folder);
    fail_allocations(fails, 1);
    auto over = bring_in(sends);
    sends.send(sends.left() - 1);
    EXPECT_TRUE(wait_until([&] { return is_shown() || is_over(over); }));
    const std::uint64_t replays = engine_->stats().replays;
    auto submitted = engine_->submit(request());
    if (is_late && submitted) {
      EXPECT_TRUE(wait_until([&] { return engine_->stats().replays > replays || is_over(over); }));
    }
    sends.send_rest();
    over.get();
    const std::int64_t took = allocations();
    num_injected_ += stop_failing();
    if (submitted) expect_right_or_failed(**submitted);
    submitted = Status(StatusCode::cancelled, "");
    expect_nothing_left();
    return took;
  }
  void torture(int rounds, bool is_late) {
    std::mt19937_64 random(test_seed());
    // The first arrival allocates the things that stay from then on.
    arrive("first", kForEver, is_late);
    const std::int64_t most = arrive("undisturbed", kForEver, is_late);
    ASSERT_EQ(num_right_, 2);
    // For a late arrival only the last allocations count, after the rest has come.
    const std::int64_t span = is_late ? 16 : most;
    ASSERT_GT(most, span / 2);
    for (int round = 0; round < rounds; ++round) {
      const std::int64_t fails =
          most - static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(span));
      SCOPED_TRACE(fmt::format("round {}, allocation {} of {}", round, fails, most));
      arrive("incoming" + std::to_string(round), fails, is_late);
      if (HasFailure()) return;
    }
    EXPECT_GT(num_injected_, 0);
  }

  int num_right_ = 0;
  int num_failed_ = 0;
  std::int64_t num_injected_ = 0;
};

TEST_F(ArrivalWithoutMemory, IsToldToWhomWaitsWhenTheSenderDies) {
  Sender dies(right_, dir_.path() / "incoming");
  auto over = bring_in(dies);
  const auto generation = compute_from(dies);
  fail_allocations(1, kForEver);
  dies.writing->end({StatusCode::unavailable, "it broke off in the middle of its file"});
  over.get();
  EXPECT_GT(stop_failing(), 0);
  const Collected got = collect(*generation)[0];
  EXPECT_EQ(got.error.code(), StatusCode::unavailable);
  EXPECT_EQ(got.error.message(), "out of memory");
  EXPECT_TRUE(got.tokens.empty());
  EXPECT_FALSE(is_named());
  expect_nothing_left();
}

TEST_F(ArrivalWithoutMemory, IsToldToWhomWaitsWhenTheLastBytesCome) {
  Sender sends(right_, dir_.path() / "incoming");
  auto over = bring_in(sends);
  const auto generation = compute_from(sends);
  fail_allocations(1, kForEver);
  sends.send_rest();
  over.get();
  EXPECT_GT(stop_failing(), 0);
  expect_right_or_failed(*generation);
  expect_nothing_left();
}

TEST_F(ArrivalWithoutMemory, EndsNothingAndGivesNoWrongTokenWhereverItIs) {
  torture(kRounds, /*is_late=*/false);
}

// The rest comes after it was given up: what has arrived is kept if there is memory to record that,
// and is otherwise read again from its folder.
TEST_F(ArrivalWithoutMemory, EndsNothingAndGivesNoWrongTokenWhenTheRestIsLate) {
  TANDEM_SKIP_UNDER_TSAN();
  torture(kRounds / 4, /*is_late=*/true);
}

}  // namespace
}  // namespace tandem::test
