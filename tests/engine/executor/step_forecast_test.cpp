#include "engine/executor/step_forecast.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TimePoint at_ms(double ms) {
  return TimePoint() +
         std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(ms));
}

// Simulates decode steps that take 12 ms instead of the model's 4, with two in the queue, until
// `rounds` have ended. The last one begins at the returned time, with none behind it.
double run_slow_steps(StepForecast& forecast, int rounds) {
  double now = 0;
  forecast.add(at_ms(now), 4e-3);
  for (int i = 0; i < rounds; ++i) {
    forecast.add(at_ms(now), 4e-3);
    now += 12;
    forecast.end_oldest(at_ms(now), true);
  }
  return now;
}

TEST(StepForecast, IsDoneWhenNothingIsUnderWay) {
  StepForecast forecast;
  EXPECT_EQ(forecast.busy_for(at_ms(3)), 0);
  forecast.add(at_ms(3), 4e-3);
  forecast.end_oldest(at_ms(9), true);
  EXPECT_EQ(forecast.busy_for(at_ms(9)), 0);
}

TEST(StepForecast, CountsDownTheStepThatRunsAndAddsTheOneBehindIt) {
  StepForecast forecast;
  forecast.add(at_ms(0), 4e-3);
  EXPECT_NEAR(forecast.busy_for(at_ms(1)), 3e-3, 1e-9);
  forecast.add(at_ms(1), 5e-3);
  EXPECT_NEAR(forecast.busy_for(at_ms(1)), 8e-3, 1e-9);
  EXPECT_NEAR(forecast.busy_for(at_ms(3)), 6e-3, 1e-9);
}

// The second step gets its whole time although the first is late: a load that begins now has at
// least this long before the third step begins.
TEST(StepForecast, LetsTheStepBehindALateOneTakeItsWholeTime) {
  StepForecast forecast;
  forecast.add(at_ms(0), 4e-3);
  forecast.add(at_ms(0), 5e-3);
  EXPECT_NEAR(forecast.busy_for(at_ms(10)), 5e-3, 1e-9) << "the first may end at any time";
  forecast.end_oldest(at_ms(10), true);
  EXPECT_NEAR(forecast.busy_for(at_ms(10)), 5e-3, 1e-9);
  EXPECT_NEAR(forecast.busy_for(at_ms(12)), 3e-3, 1e-9);
}

TEST(StepForecast, LearnsHowMuchLongerStepsTakeThanTheModelSays) {
  StepForecast forecast;
  const double now = run_slow_steps(forecast, 3);
  EXPECT_NEAR(forecast.pace(), 3, 1e-6);
  EXPECT_NEAR(forecast.busy_for(at_ms(now + 2)), 10e-3, 1e-8);
  forecast.add(at_ms(now + 2), 4e-3);
  EXPECT_NEAR(forecast.busy_for(at_ms(now + 2)), 22e-3, 1e-8);
}

TEST(StepForecast, LearnsNothingFromFewStepsOrOneHiccup) {
  StepForecast few;
  run_slow_steps(few, 2);
  EXPECT_EQ(few.pace(), 1);
  StepForecast forecast;
  const double now = run_slow_steps(forecast, 9);
  forecast.end_oldest(at_ms(now + 5000), true);
  EXPECT_NEAR(forecast.pace(), 3, 1e-6);
}

TEST(StepForecast, TakesPlannedStepsAtTheirWordAndLearnsNothingFromThem) {
  StepForecast forecast;
  const double now = run_slow_steps(forecast, 3);
  forecast.end_oldest(at_ms(now + 12), true);
  for (int i = 0; i < 9; ++i) {
    forecast.add_planned(at_ms(now + 12), 7e-3);
    EXPECT_NEAR(forecast.busy_for(at_ms(now + 12)), 7e-3, 1e-9);
    forecast.end_oldest(at_ms(now + 13), true);
    forecast.add(at_ms(now + 13), 4e-3);
    forecast.end_oldest(at_ms(now + 13), false);  // a failed step
  }
  EXPECT_NEAR(forecast.pace(), 3, 1e-6);
}

TEST(StepForecast, ForgetsThePaceOfLongAgo) {
  StepForecast forecast;
  double now = run_slow_steps(forecast, 20);
  for (int i = 0; i < 9; ++i) {
    forecast.end_oldest(at_ms(now += 6), true);
    forecast.add(at_ms(now), 4e-3);
  }
  EXPECT_NEAR(forecast.pace(), 1.5, 1e-6);
}

}  // namespace
}  // namespace tandem
