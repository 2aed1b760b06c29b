#include "scheduler/queue/early_abort.h"

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
  EXPECT_NEAR(abort.retry_after_s(100), 5, 0.01);  // 100 waiting, 20 a second
  EXPECT_DOUBLE_EQ(abort.retry_after_s(1), 1);
  EXPECT_DOUBLE_EQ(abort.retry_after_s(1'000'000), 60);
}

}  // namespace
}  // namespace tandem
