#include "engine/executor/enqueue_timer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <random>
#include <vector>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using Work = Planning::Work;

constexpr StepKind kDecode{4, true};
constexpr double kLeastSlack = 1e-4;  // the same value as in the timer

TimePoint at_s(double seconds) {
  return TimePoint() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}
double seconds_of(TimePoint at) {
  return seconds_between(TimePoint(), at);
}

// Simulates an engine and its device. One step runs; the next is planned when the timer says so or
// when the running one ends, and reaches the device `lead` seconds later.
class Machine {
 public:
  struct Measured {
    bool held = false;
    double gap = 0;
    double early = 0;  // seconds in the device's queue before it began
  };

  explicit Machine(double takes = 4e-3, double lead = 1e-4) {
    timer.enqueued(kDecode, {at_s(0), false, Work::decode}, at_s(lead), 0);
    begun_ = lead;
    end_ = begun_ + takes;
  }

  // Enqueues a step behind the running one, which then ends.
  Measured step(double takes, double lead, std::optional<StepKind> kind = kDecode,
                Work work = Work::decode, bool counts = true) {
    Measured measured;
    const std::optional<TimePoint> at = timer.plan_at(work);
    double begin = begun_;
    if (at && seconds_of(*at) > begun_) {
      measured.held = true;
      begin = std::min(seconds_of(*at), end_);
    }
    const double launched = begin + lead;
    measured.gap = std::max(0.0, launched - end_);
    measured.early = std::max(0.0, end_ - launched);
    timer.enqueued(kind, {at_s(begin), measured.held, work}, at_s(launched), measured.gap);
    const double seen = std::max(end_, launched);
    timer.ended(at_s(seen), counts);
    begun_ = seen;
    end_ = begun_ + takes;
    return measured;
  }
  void steps(int count, double takes = 4e-3, double lead = 1e-4) {
    for (int i = 0; i < count; ++i) step(takes, lead);
  }
  // Seconds from the start of the running step to the planning of the next.
  std::optional<double> planned_after(Work work = Work::decode) const {
    const std::optional<TimePoint> at = timer.plan_at(work);
    if (!at) return std::nullopt;
    return seconds_of(*at) - begun_;
  }
  double begun() const { return begun_; }

  EnqueueTimer timer;

 private:
  double begun_ = 0;  // begin of the running step
  double end_ = 0;
};

TEST(EnqueueTimer, PlansAtOnceWhileLittleIsKnown) {
  EnqueueTimer idle;
  EXPECT_FALSE(idle.plan_at(Work::decode));
  Machine machine;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(machine.planned_after()) << i;
    EXPECT_EQ(machine.timer.counts().margin_s > 0, i == 2) << "of three plannings one is known";
    machine.steps(1);
  }
  EXPECT_TRUE(machine.planned_after());
}

TEST(EnqueueTimer, HoldsTheNextStepBackUntilShortlyBeforeTheEnd) {
  Machine machine;
  machine.steps(300);
  ASSERT_TRUE(machine.planned_after());
  EXPECT_NEAR(*machine.planned_after(), 4e-3 - 1e-4 - kLeastSlack, 1e-8);
  EXPECT_NEAR(machine.timer.counts().margin_s, 1e-4 + kLeastSlack, 1e-8);
  const EnqueueCounts counts = machine.timer.counts();
  EXPECT_EQ(counts.late, 0U);
  EXPECT_EQ(counts.at_once, 4U);
  EXPECT_EQ(counts.in_time, 297U);
}

TEST(EnqueueTimer, HoldsNothingBackBehindTwoStepsOrNone) {
  Machine machine;
  machine.steps(10);
  machine.timer.enqueued(kDecode, {at_s(machine.begun()), false, Work::decode},
                         at_s(machine.begun()), 0);
  EXPECT_FALSE(machine.planned_after());
  machine.timer.clear();
  EXPECT_FALSE(machine.planned_after());
}

TEST(EnqueueTimer, HoldsNothingBackBehindAStepThatWaitsForOthers) {
  Machine machine;
  machine.steps(10);
  machine.step(4e-3, 1e-4, std::nullopt);
  EXPECT_FALSE(machine.planned_after());
  machine.step(4e-3, 1e-4);
  EXPECT_TRUE(machine.planned_after());
}

TEST(EnqueueTimer, HoldsNothingBackBehindShortSteps) {
  Machine machine(5e-4);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(machine.step(5e-4, 1e-4).held);
}

TEST(EnqueueTimer, KnowsHowLongEachKindOfPlanningTakes) {
  Machine machine;
  machine.steps(300);
  EXPECT_FALSE(machine.planned_after(Work::prompts));
  for (int i = 0; i < 3; ++i) machine.step(4e-3, 5e-4, kDecode, Work::prompts);
  ASSERT_TRUE(machine.planned_after(Work::prompts));
  EXPECT_NEAR(*machine.planned_after() - *machine.planned_after(Work::prompts), 4e-4, 1e-8);
  EXPECT_FALSE(machine.planned_after(Work::loads));
}

TEST(EnqueueTimer, KnowsHowLongEachKindOfStepTakes) {
  Machine machine;
  machine.steps(20);
  const StepKind prompt{600, false};
  machine.step(40e-3, 1e-4, prompt);
  EXPECT_FALSE(machine.planned_after()) << "no step of its kind has been seen";
  machine.step(4e-3, 1e-4);
  for (int i = 0; i < 2; ++i) {
    machine.step(40e-3, 1e-4, prompt);
    machine.step(4e-3, 1e-4);
    EXPECT_LT(machine.planned_after().value(), 4e-3);
  }
  machine.step(40e-3, 1e-4, prompt);
  EXPECT_GT(machine.planned_after().value(), 39e-3);
}

// A step with more rows takes no less time, as a rule.
TEST(EnqueueTimer, TakesWhatFewerRowsTakeForAKindThatIsNew) {
  Machine machine;
  machine.steps(20);
  machine.step(9e-3, 1e-4, StepKind{64, true});
  ASSERT_TRUE(machine.planned_after());
  EXPECT_LT(*machine.planned_after(), 4e-3);
  machine.step(2e-3, 1e-4, StepKind{3, true});
  EXPECT_FALSE(machine.planned_after()) << "more rows may take longer";
}

TEST(EnqueueTimer, WidensTheMarginAtOnceWhenAStepComesTooLate) {
  Machine machine;
  machine.steps(300);
  const double before = machine.timer.counts().margin_s;
  EXPECT_GT(machine.step(4e-3, 1e-3).gap, 0);
  EXPECT_EQ(machine.timer.counts().late, 1U);
  EXPECT_NEAR(machine.timer.counts().margin_s, before + kLeastSlack, 1e-8) << "slack is doubled";
  machine.steps(300);
  EXPECT_NEAR(machine.timer.counts().margin_s, before, 1e-8);
}

TEST(EnqueueTimer, TakesNoStallForATrend) {
  Machine machine;
  machine.steps(300);
  const double before = *machine.planned_after();
  machine.step(2.0, 1e-4);  // then a step that looks short, since the host saw this end late
  machine.step(1e-3, 0.5);
  machine.steps(1);
  ASSERT_TRUE(machine.planned_after());
  EXPECT_NEAR(*machine.planned_after(), before, 5e-4);
}

TEST(EnqueueTimer, LearnsNothingFromStepsThatFailed) {
  Machine machine;
  machine.steps(300);
  const double before = *machine.planned_after();
  for (int i = 0; i < 20; ++i) machine.step(1e-3, 1e-4, kDecode, Work::decode, false);
  machine.step(4e-3, 1e-4, kDecode, Work::decode, false);
  // Each failed step ended early, so the margin is wide now; the learned durations are unchanged.
  EXPECT_FALSE(machine.planned_after());
  machine.steps(1000);
  EXPECT_NEAR(*machine.planned_after(), before, 1e-8);
}

TEST(EnqueueTimer, FollowsStepsThatBecomeLongerOrShorter) {
  Machine machine;
  machine.steps(300);
  machine.steps(40, 6e-3);
  EXPECT_NEAR(*machine.planned_after(), 6e-3 - 2e-4, 1e-8);
  const std::uint64_t late = machine.timer.counts().late;
  machine.steps(400, 3e-3);
  EXPECT_NEAR(*machine.planned_after(), 3e-3 - 2e-4, 1e-8);
  EXPECT_LE(machine.timer.counts().late - late, 3U);
}

// This holds for any durations of steps and planning.
TEST(EnqueueTimer, NeverPlansLaterThanTheSecondShortestOfTheLastStepsWouldEnd) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed << " (TANDEM_TEST_SEED)");
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> takes(-5.5, 0.5);
  std::lognormal_distribution<double> lead(-9, 1);
  std::bernoulli_distribution stalls(0.01);
  Machine machine;
  std::deque<double> took;
  double last = 0;
  std::uint64_t enqueued = 1;
  std::uint64_t held = 0;
  for (int i = 0; i < 20000; ++i) {
    if (const auto after = machine.planned_after()) {
      ASSERT_GE(took.size(), 3U);
      std::vector<double> sorted(took.begin(), took.end());
      std::sort(sorted.begin(), sorted.end());
      ASSERT_LT(*after, sorted[took.size() < 6 ? 0 : 1]) << "step " << i;
      ASSERT_GT(*after, 0);
    }
    last = machine.begun();
    const double stall = stalls(random) ? 0.05 : 0;
    held += machine.step(takes(random), lead(random) + stall).held ? 1 : 0;
    took.push_back(machine.begun() - last);
    if (took.size() > 16) took.pop_front();
    ++enqueued;
    const EnqueueCounts counts = machine.timer.counts();
    ASSERT_EQ(counts.at_once + counts.in_time + counts.late, enqueued);
    ASSERT_EQ(counts.in_time + counts.late, held);
  }
  EXPECT_GT(held, 0U);
}

// Durations like those of a GPU's decode steps, with a prompt now and then.
TEST(EnqueueTimer, ComesToFewGapsAndSmallMargins) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed << " (TANDEM_TEST_SEED)");
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, 5e-5);
  std::exponential_distribution<double> wakes(1 / 6e-5);
  std::bernoulli_distribution is_prompt(0.04);
  Machine machine;
  double idle = 0;
  double early = 0;
  constexpr int kSteps = 20000;
  constexpr int kLearning = 1000;
  double begin = 0;
  for (int i = 0; i < kSteps; ++i) {
    if (i == kLearning) begin = machine.begun();
    const bool prompt = is_prompt(random);
    const double takes = (prompt ? 4.4e-3 : 4e-3) + std::abs(noise(random));
    const Machine::Measured measured =
        machine.step(takes, (prompt ? 2e-4 : 1e-4) + wakes(random),
                     prompt ? StepKind{24, false} : kDecode, prompt ? Work::prompts : Work::decode);
    if (i < kLearning) continue;
    idle += measured.gap;
    early += measured.early;
  }
  EXPECT_LT(idle / (machine.begun() - begin), 0.005);
  EXPECT_LT(early / (kSteps - kLearning), 5e-4);
}

}  // namespace
}  // namespace tandem
