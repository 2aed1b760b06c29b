#include "scheduler/planning/queue/early_abort.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tandem {
namespace {

TEST(EarlyAbort, GivesUpWhatCannotMakeItsDeadlineEvenIfBegunNow) {
  EarlyAbort abort;
  EXPECT_FALSE(abort.is_late(0.9, 1.0, 100));
  EXPECT_TRUE(abort.is_late(1.1, 1.0, 100));
  abort.saw_prefill(0.3, 100);
  EXPECT_TRUE(abort.is_late(0.8, 1.0, 100));
  EXPECT_FALSE(abort.is_late(0.6, 1.0, 100));
  EXPECT_FALSE(abort.is_late(1e9, 0, 100)) << "no deadline";
}

TEST(EarlyAbort, JudgesAPromptByThoseThatAreNoLonger) {
  EarlyAbort abort;
  abort.saw_prefill(10, 30'000);
  abort.saw_prefill(0.1, 100);
  EXPECT_DOUBLE_EQ(abort.longest_prefill_s(100), 0.1);
  EXPECT_DOUBLE_EQ(abort.longest_prefill_s(50), 0) << "none as short was seen";
  EXPECT_DOUBLE_EQ(abort.longest_prefill_s(1000), 0.1) << "it takes no less than a shorter one";
  EXPECT_DOUBLE_EQ(abort.longest_prefill_s(31'000), 10);
  EXPECT_DOUBLE_EQ(abort.longest_prefill_s(std::int64_t{1} << 40), 10);
  EXPECT_DOUBLE_EQ(abort.longest_prefill_s(0), 0);
}

TEST(EarlyAbort, ForgetsAStallInTimeThoughNothingIsAdmitted) {
  EarlyAbort abort;
  abort.saw_prefill(10, 100);
  for (int i = 0; i < 150; ++i) abort.end_period(3, 0, 0.1);
  EXPECT_DOUBLE_EQ(abort.longest_prefill_s(100), 10) << "within a window or two";
  for (int i = 0; i < 60; ++i) abort.end_period(3, 0, 0.1);
  EXPECT_DOUBLE_EQ(abort.longest_prefill_s(100), 0);
  abort.saw_prefill(10, 100);
  abort.end_period(0, 0, 3600);
  EXPECT_DOUBLE_EQ(abort.longest_prefill_s(100), 0) << "a long pause";
}

TEST(EarlyAbort, ForgetsAStallAfterAFewDozenPrefills) {
  EarlyAbort abort;
  abort.saw_prefill(10, 100);
  for (int i = 0; i < 40; ++i) abort.saw_prefill(0.1, 100);
  EXPECT_DOUBLE_EQ(abort.longest_prefill_s(100), 10);
  for (int i = 0; i < 40; ++i) abort.saw_prefill(0.1, 100);
  EXPECT_DOUBLE_EQ(abort.longest_prefill_s(100), 0.1);
}

TEST(EarlyAbort, TellsWhoIsTooLateFromWhoWouldBe) {
  EarlyAbort abort;
  abort.saw_prefill(0.3, 100);
  using enum EarlyAbort::Lateness;
  EXPECT_EQ(abort.lateness(1.1, 1.0, 100, false), expired);
  EXPECT_EQ(abort.lateness(1.1, 1.0, 100, true), expired);
  EXPECT_EQ(abort.lateness(0.8, 1.0, 100, false), unreachable);
  EXPECT_EQ(abort.lateness(0.8, 1.0, 100, true), in_time);
  EXPECT_EQ(abort.lateness(0.6, 1.0, 100, false), in_time);
  EXPECT_EQ(abort.lateness(1e9, 0, 100, false), in_time) << "no deadline";
}

TEST(EarlyAbort, CountsByAClock) {
  EarlyAbort abort;
  double now_s = 1e5;
  const auto go_on = [&](int came, int admitted) {
    for (int i = 0; i < 1000; ++i) {
      now_s += 0.005;
      for (int each = 0; each < came; ++each) abort.came();
      for (int each = 0; each < admitted; ++each) abort.was_admitted();
      abort.tick(now_s);
    }
  };
  go_on(3, 2);
  EXPECT_TRUE(abort.is_overloaded());
  EXPECT_NEAR(abort.retry_after_s(4000), 10, 1);  // 400 per second are admitted
  go_on(2, 2);
  EXPECT_FALSE(abort.is_overloaded());
}

TEST(EarlyAbort, IsOverloadedWhileMoreComeThanAreAdmitted) {
  EarlyAbort abort;
  EXPECT_FALSE(abort.is_overloaded());
  for (int i = 0; i < 200; ++i) abort.end_period(5, 3, 0.1);
  EXPECT_TRUE(abort.is_overloaded());
  for (int i = 0; i < 200; ++i) abort.end_period(2, 3, 0.1);
  EXPECT_FALSE(abort.is_overloaded());
}

TEST(EarlyAbort, IsNotOverloadedForLongByOneRequestThatIsGivenUp) {
  EarlyAbort abort;
  abort.end_period(1, 0, 0.1);
  EXPECT_TRUE(abort.is_overloaded());
  for (int i = 0; i < 100; ++i) abort.end_period(1, 1, 0.1);
  EXPECT_FALSE(abort.is_overloaded());
}

TEST(EarlyAbort, LearnsNothingFromPeriodsInWhichNothingHappened) {
  EarlyAbort abort;
  for (int i = 0; i < 50; ++i) abort.end_period(5, 3, 0.1);
  for (int i = 0; i < 100'000; ++i) abort.end_period(0, 0, 0.1);
  EXPECT_TRUE(abort.is_overloaded());
}

TEST(EarlyAbort, SaysWhenToComeAgainWithinBounds) {
  EarlyAbort abort;
  EXPECT_DOUBLE_EQ(abort.retry_after_s(1000), 1) << "nothing is known yet";
  for (int i = 0; i < 2000; ++i) abort.end_period(4, 2, 0.1);
  EXPECT_NEAR(abort.retry_after_s(100), 5, 0.01);  // 100 wait, 20 per second are admitted
  EXPECT_DOUBLE_EQ(abort.retry_after_s(1), 1);
  EXPECT_DOUBLE_EQ(abort.retry_after_s(1'000'000), 60);
}

}  // namespace
}  // namespace tandem
