#include "cpu_lora/worker_pool/worker_wakes.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <initializer_list>

namespace tandem {
namespace {

using std::chrono::microseconds;

constexpr std::uint64_t kAll = ~std::uint64_t{0};

class WorkerWakesTest : public ::testing::Test {
 protected:
  void sleep(std::initializer_list<int> worker_slots) {
    for (const int i : worker_slots) mailbox_.worker_slot(i).state = WorkerSlotState::sleeping;
  }
  // The worker reports that it is awake; `lies_us`: error of the reported time.
  void awake(int worker_slot, std::int64_t lies_us = 0) {
    const std::chrono::nanoseconds at = (now_ + microseconds(lies_us)).time_since_epoch();
    mailbox_.worker_slot(worker_slot).woke_ns = static_cast<std::uint64_t>(at.count());
    mailbox_.worker_slot(worker_slot).state = WorkerSlotState::working;
  }
  void wake(std::uint64_t undisturbed = kAll) { wakes_.note_waking(mailbox_, undisturbed, now_); }
  void pass(int us) {
    now_ += microseconds(us);
    wakes_.look(mailbox_, now_);
  }
  double awake_in() const { return wakes_.awake_in(sleepers(mailbox_), now_); }
  // The first two workers sleep and are woken: one wakes after `first_us`, the other after
  // `last_us`.
  void wake_after(int first_us, int last_us) {
    sleep({0, 1});
    wake();
    now_ += microseconds(first_us);
    awake(0);
    now_ += microseconds(last_us - first_us);
    awake(1);
    pass(0);
  }

  Mailbox mailbox_ = Mailbox::create({DType::bf16, 4, 8, 64, 64, 8}, -1).value();
  TimePoint now_ = TimePoint{} + std::chrono::hours(1);
  WorkerWakes wakes_;
};

TEST_F(WorkerWakesTest, WaitForNobodyWhereNobodySleeps) {
  EXPECT_EQ(awake_in(), 0);
  wake_after(100, 200);
  EXPECT_EQ(awake_in(), 0);
}

TEST_F(WorkerWakesTest, GuessUntilSomethingWasSeen) {
  sleep({2});
  EXPECT_EQ(sleepers(mailbox_), 4U);
  EXPECT_DOUBLE_EQ(awake_in(), WorkerWakes::kFirstGuessS);
  wake();
  pass(3000);
  EXPECT_DOUBLE_EQ(awake_in(), 3e-3) << "as long again";
}

TEST_F(WorkerWakesTest, ExpectTheLastOfThoseThatSleep) {
  wake_after(100, 1000);
  wake_after(100, 3000);
  sleep({0, 1});
  EXPECT_NEAR(awake_in(), 2e-3, 1e-9);
  mailbox_.worker_slot(1).state = WorkerSlotState::working;
  EXPECT_NEAR(awake_in(), 100e-6, 1e-9) << "the other one takes less";
}

TEST_F(WorkerWakesTest, ExpectOfWhoHasNotComeYetWhatThoseTookThatWereAsLate) {
  wake_after(100, 200);
  wake_after(100, 1000);
  wake_after(100, 3000);
  sleep({0, 1});
  wake();
  pass(500);
  EXPECT_NEAR(awake_in(), (0.5e-3 + 2.5e-3) / 2, 1e-9);
  awake(0);
  pass(1500);
  EXPECT_NEAR(awake_in(), 1e-3, 1e-9);
  pass(2000);
  EXPECT_NEAR(awake_in(), 4e-3, 1e-9);
}

TEST_F(WorkerWakesTest, LearnNothingOfThoseWhoseCoresOthersWant) {
  wake_after(100, 200);
  sleep({0, 1});
  wake(1);
  now_ += microseconds(300);
  awake(0);
  pass(5000);
  awake(1);
  pass(0);
  sleep({1});
  EXPECT_NEAR(awake_in(), 200e-6, 1e-9);
}

TEST_F(WorkerWakesTest, TellWhatTheLastOneTakesAsARule) {
  EXPECT_EQ(wakes_.usual_s(), 0) << "nobody knows";
  wake_after(100, 200);
  wake_after(100, 1000);
  EXPECT_NEAR(wakes_.usual_s(), 0.6e-3, 1e-9);
}

TEST_F(WorkerWakesTest, CountAsJustWokenForAWhile) {
  const auto just_woken_for = [&] { return wakes_.just_woken_for(sleepers(mailbox_), now_); };
  EXPECT_EQ(just_woken_for(), 0) << "nobody slept";
  wake();
  EXPECT_EQ(just_woken_for(), 0) << "nor was there anybody to wake";
  sleep({0, 1});
  EXPECT_DOUBLE_EQ(just_woken_for(), WorkerWakes::kJustWokenS) << "if they are woken now";
  wake(0);  // whatever was learned of it
  pass(100);
  EXPECT_DOUBLE_EQ(just_woken_for(), WorkerWakes::kJustWokenS) << "they sleep still";
  awake(0), awake(1);
  pass(2900);
  EXPECT_NEAR(just_woken_for(), WorkerWakes::kJustWokenS - 3e-3, 1e-9);
  pass(20'000);
  EXPECT_EQ(just_woken_for(), 0);
}

TEST_F(WorkerWakesTest, ForgetWhatWasLongAgo) {
  for (std::size_t i = 0; i < WorkerWakes::kRemembered; ++i) wake_after(100, 9000);
  for (std::size_t i = 0; i < WorkerWakes::kRemembered; ++i) wake_after(100, 300);
  sleep({0, 1});
  EXPECT_NEAR(awake_in(), 300e-6, 1e-9);
}

TEST_F(WorkerWakesTest, WaitNoLongerForWhoIsHeldUpOrGone) {
  sleep({0, 1});
  wake();
  mailbox_.worker_slot(1).state = WorkerSlotState::empty;
  pass(100);
  pass(static_cast<int>(WorkerWakes::kMostS * 1e6));
  EXPECT_DOUBLE_EQ(awake_in(), WorkerWakes::kFirstGuessS) << "that says nothing of the next time";
  EXPECT_EQ(wakes_.usual_s(), 0);
  awake(0);
  wake_after(100, 200);
  sleep({1});
  EXPECT_NEAR(awake_in(), 200e-6, 1e-9);
  EXPECT_NEAR(wakes_.usual_s(), 200e-6, 1e-9);
}

TEST_F(WorkerWakesTest, BelieveNobodyMoreThanThereWasTime) {
  for (const std::int64_t lies_us : {-1'000'000'000, -1, 1'000'000'000}) {
    sleep({3});
    wake();
    now_ += microseconds(400);
    awake(3, lies_us);
    pass(0);
  }
  mailbox_.worker_slot(3).state = WorkerSlotState::sleeping;
  EXPECT_NEAR(awake_in(), 399.5e-6, 1e-9) << "399 and 400; before it was woken it did not wake";
  wake();
  mailbox_.worker_slot(3).woke_ns = ~std::uint64_t{0};
  pass(100);
  EXPECT_LE(awake_in(), 400e-6 + 1e-9);
}

}  // namespace
}  // namespace tandem
