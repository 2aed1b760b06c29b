// The input that the planner gets about adapters that are loading. Its plans are tested in
// tests/scheduler/planning/coldstart.
#include "engine/handoff/handoff_planner.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/engine/adapters/adapter_being_read.h"

namespace tandem::test {
namespace {

constexpr double kStandsStill_s = 20e-3;
constexpr std::array<std::uint64_t, 1> kBothWorkerSlots = {3};
constexpr std::array<MailboxWorkers, 1> kBothWorkers = {{{.all = 3}}};

// Observes many steps of this duration; returns the duration expected afterwards.
double see_steps(HandoffLearner& learner, double seconds) {
  for (int i = 0; i < 32; ++i) learner.observe_step(8, seconds);
  return learner.step_time(8);
}

// A planner with what it learns.
struct LearningPlanner {
  LearningPlanner(const AdapterBeingRead& adapter, const HandoffOptions& options,
                  bool whole_loads = false)
      : learner(adapter.config, options.costs, options.lessons, adapter.clock),
        planner(adapter.config, 1, whole_loads, options, *adapter.host, learner, adapter.clock) {}
  HandoffLearner learner;
  HandoffPlanner planner;
};

class HandoffPlannerTest : public ::testing::Test {
 protected:
  HandoffPlannerTest() {
    // The costs say that workers are immediate and the link endless, so plans hand over if they
    // can.
    options_.costs.link_bytes_per_s = 1e3;
    options_.costs.worker_job_s = 0;
    options_.costs.trip_s = 0;
    options_.groups.push_back({-1, {1, 2}, 0});
    read_.reading->layer_there(0);
    read_.reading->layer_there(1);
  }

  LearningPlanner planner(bool whole_loads = false) const { return {read_, options_, whole_loads}; }
  ~HandoffPlannerTest() override { read_.tier->loads().first().stream().let_go(); }
  // Starts a load of which nothing arrives, whether it was read or not.
  void load() {
    read_.tier->loads().first().stream().hold(&hold_, 1);
    ASSERT_EQ(read_.tier->start(read_.lease), DeviceTier::Start::on_its_way);
  }
  // Workers are so slow that one takes much longer than two; the adapter has been read.
  void load_beside_slow_workers() {
    load();
    read_.end();
    options_.costs.worker_job_s = 1e-3;
    options_.costs.worker_bytes_per_s = 1e6;
    options_.costs.workers_bytes_per_s = 1e6;
  }
  HandoffStep step_of(const LearningPlanner& by,
                      const std::array<MailboxWorkers, 1>& workers = kBothWorkers) const {
    HandoffStep step;
    by.planner.plan(std::array{AdapterRows{read_.lease, 8}}, 8, 0, workers,
                    read_.tier->loads().first(), {}, step);
    return step;
  }

  std::uint32_t hold_ = 0;
  AdapterBeingRead read_{1e3};
  HandoffOptions options_;
};

TEST_F(HandoffPlannerTest, HasWorkersWaitForLayersThatAreStillRead) {
  load();
  for (const bool whole_loads : {false, true}) {
    const std::vector<double> unread = read_.stand_still(kStandsStill_s);
    const HandoffStep step = step_of(planner(whole_loads));
    ASSERT_EQ(step.groups.size(), 1U);
    EXPECT_EQ(step.unread, (std::vector<bool>{false, false, true, true, true}));
    EXPECT_GE(step.planned_s, unread[4]);
    EXPECT_LT(step.planned_layers[0] + step.planned_layers[1], unread[2])
        << "what has been read is begun with";
  }
}

TEST_F(HandoffPlannerTest, KnowsWhenTheReadingHasEnded) {
  load();
  const std::vector<double> unread = read_.stand_still(kStandsStill_s);
  read_.end();
  const HandoffStep step = step_of(planner());
  ASSERT_EQ(step.groups.size(), 1U);
  EXPECT_EQ(step.unread, std::vector<bool>(5, false));
  EXPECT_LT(step.planned_s, unread[4]);
}

TEST_F(HandoffPlannerTest, CountsTheReadingWhenLoadsAreOrdered) {
  const std::array loads = {AdapterRows{read_.lease, 8}};
  DeviceTier::Turn turn(*read_.tier);
  ASSERT_EQ(turn.reserve(read_.lease), DeviceTier::Start::on_its_way);
  const std::vector<double> unread = read_.stand_still(kStandsStill_s);
  const auto end = [&] {
    return planner()
        .planner.admission({}, loads, 0, 0, kBothWorkers, read_.tier->loads().first())
        .ends.at(0);
  };
  EXPECT_GE(end(), unread[4]);
  read_.end();
  EXPECT_LT(end(), unread[4]);
}

TEST_F(HandoffPlannerTest, LeavesOutWhoSleepsWhereWaitingForHimTakesLonger) {
  load_beside_slow_workers();
  const auto workers_of = [&](std::uint64_t asleep, double awake_in) {
    const HandoffStep step = step_of(planner(), {{{3, asleep, awake_in}}});
    EXPECT_EQ(step.groups.size(), 1U);
    return step.groups.empty() ? 0 : step.groups[0].job.workers;
  };
  EXPECT_EQ(workers_of(0, 0), 3U);
  EXPECT_EQ(workers_of(2, 1e-6), 3U) << "two are faster, and both are there at once";
  EXPECT_EQ(workers_of(2, 10), 1U);
  EXPECT_EQ(workers_of(3, 10), 3U) << "there is nobody else, and the link takes for ever";
  const HandoffStep waits = step_of(planner(), {{{3, 3, 10}}});
  EXPECT_GE(waits.planned_s, 10);
  EXPECT_LT(step_of(planner(), {{{3, 2, 10}}}).planned_s, 10);
}

TEST_F(HandoffPlannerTest, TellsStepsOfWorkersThatSleptFromOthers) {
  load_beside_slow_workers();
  const auto is_just_woken = [&](double awake_in, double just_woken_for,
                                 double awake_just_woken_for) {
    const HandoffStep step = step_of(
        planner(), {{{3, awake_in > 0 ? 2U : 0U, awake_in, just_woken_for, awake_just_woken_for}}});
    EXPECT_EQ(step.groups.size(), 1U);
    return step.chosen.situation.just_woken == 1;
  };
  EXPECT_FALSE(is_just_woken(0, 0, 0));
  EXPECT_TRUE(is_just_woken(0, 1, 1));
  EXPECT_TRUE(is_just_woken(1e-6, 1, 0)) << "who sleeps has part in it";
  EXPECT_FALSE(is_just_woken(10, 1, 0)) << "he is left out, and the other is awake for long";
  EXPECT_TRUE(is_just_woken(10, 1, 1));
}

TEST_F(HandoffPlannerTest, OrdersLoadsForThoseWhoAreAwakeWhereTheOthersTakeLonger) {
  const std::array loads = {AdapterRows{read_.lease, 8}};
  DeviceTier::Turn turn(*read_.tier);
  ASSERT_EQ(turn.reserve(read_.lease), DeviceTier::Start::on_its_way);
  read_.end();
  const auto admission = [&](const MailboxWorkers& workers) {
    return planner().planner.admission({}, loads, 0, 0, std::array{workers},
                                       read_.tier->loads().first());
  };
  const double all_awake = admission({.all = 3}).ends.at(0);
  const AdmissionPlan one_awake = admission({3, 2, 10});
  EXPECT_TRUE(one_awake.hands_over);
  EXPECT_GE(one_awake.ends.at(0), all_awake);
  EXPECT_LT(one_awake.ends.at(0), 10);
  EXPECT_GE(admission({3, 3, 10}).ends.at(0), 10);
}

// Step times learned while a worker is missing do not replace those from before.
TEST_F(HandoffPlannerTest, KnowsAgainWhatItKnewBeforeAWorkerWasMissing) {
  ManualClock clock;
  HandoffLearner learner(read_.config, options_.costs, {}, clock);
  learner.note_workers(kBothWorkerSlots);
  const double usual = see_steps(learner, 0.010);
  const std::array<std::uint64_t, 1> one = {1}, none = {0};
  learner.note_workers(one);
  EXPECT_GT(see_steps(learner, 0.040), 2 * usual);
  learner.note_workers(none);
  learner.note_workers(one);
  EXPECT_DOUBLE_EQ(learner.step_time(8), usual) << "one of two is back";
  see_steps(learner, 0.040);
  learner.note_workers(kBothWorkerSlots);
  EXPECT_DOUBLE_EQ(learner.step_time(8), usual);
  const double slow = see_steps(learner, 0.040);
  learner.note_workers(kBothWorkerSlots);
  EXPECT_DOUBLE_EQ(learner.step_time(8), slow) << "nobody was missing";

  // Faults soon after another fault restore what was known before both; later faults what is known
  // then.
  learner.note_workers(one);
  learner.note_workers(kBothWorkerSlots);
  EXPECT_DOUBLE_EQ(learner.step_time(8), usual);
  const double later = see_steps(learner, 0.040);
  clock.advance(std::chrono::minutes(2));
  learner.note_workers(one);
  see_steps(learner, 0.100);
  learner.note_workers(kBothWorkerSlots);
  EXPECT_DOUBLE_EQ(learner.step_time(8), later);
}

// After a minute the missing worker counts as lost, so what was learned without it stays valid.
TEST_F(HandoffPlannerTest, ForgetsNothingForAWorkerThatHasBeenGoneForLong) {
  ManualClock clock;
  HandoffLearner learner(read_.config, options_.costs, {}, clock);
  const std::array<std::uint64_t, 1> one = {1}, none = {0};
  learner.note_workers(kBothWorkerSlots);
  const double before = see_steps(learner, 0.010);
  learner.note_workers(one);
  const double since = see_steps(learner, 0.040);
  ASSERT_GT(since, before);
  clock.advance(std::chrono::seconds(61));
  learner.note_workers(one);
  learner.note_workers(none);
  see_steps(learner, 0.100);
  learner.note_workers(one);
  EXPECT_DOUBLE_EQ(learner.step_time(8), since);
}

// An adapter that was read and is loading over a link so slow that workers pay.
class HandoffPlannerMemory : public ::testing::Test {
 protected:
  HandoffPlannerMemory() {
    adapter.end();
    options.costs.link_bytes_per_s = kLinkBytesPerS;
    options.groups.push_back({-1, {1, 2}, 0});
  }
  ~HandoffPlannerMemory() override { loads.stream().let_go(); }
  void SetUp() override {
    loads.stream().hold(&hold_, 1);
    ASSERT_EQ(adapter.tier->start(adapter.lease), DeviceTier::Start::on_its_way);
  }
  HandoffStep plan(const LearningPlanner& by, const std::optional<WayChoice>& admitted = {}) const {
    HandoffStep step;
    by.planner.plan(std::array{AdapterRows{adapter.lease, 8}}, 8, 0, kBothWorkers, loads, admitted,
                    step);
    return step;
  }

  static constexpr double kLinkBytesPerS = 60e6;
  AdapterBeingRead adapter{kLinkBytesPerS};
  LoadQueue& loads = adapter.tier->loads().first();
  HandoffOptions options;

 private:
  std::uint32_t hold_ = 0;
};

TEST_F(HandoffPlannerMemory, HasStepsWaitWherePlansLostBeforeTheRestart) {
  LearningPlanner before(adapter, options);
  HandoffStep step = plan(before);
  ASSERT_EQ(step.groups.size(), 1U);
  // Stands in for the device's report, from which no costs can be learned.
  std::vector<std::uint64_t> times(step.layers.size() * step.num_sites);
  std::vector<std::uint32_t> tickets(times.size() * kMaxColdGroups);
  step.times = times.data();
  step.tickets = tickets.data();
  before.learner.learn(step, step.planned_s);
  EXPECT_EQ(before.learner.learning().plans_followed, 1U);
  EXPECT_EQ(before.learner.learning().situations, 1U);
  PlanLessons lost;
  lost.seen.push_back({step.chosen.situation, {{{1}, {9, 9, 9}, {9, 9, 9}}}, 5, 0});
  options.lessons.plans = lost;
  LearningPlanner after(adapter, options);
  const HandoffStep waits = plan(after);
  EXPECT_TRUE(waits.groups.empty());
  EXPECT_GT(waits.planned_s, step.planned_s);
  after.learner.learn(waits, waits.planned_s);
  const PlanLessons lessons = after.learner.lessons().plans;
  ASSERT_EQ(lessons.seen.size(), 1U);
  EXPECT_EQ(lessons.seen[0].situation, step.chosen.situation);
  EXPECT_EQ(lessons.seen[0].ratios[0], (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(lessons.seen[0].steps, 6U);
  const HandoffLearning learning = after.learner.learning();
  EXPECT_EQ(learning.plans_followed, 0U);
  EXPECT_EQ(learning.plans_given_up, 1U);
  EXPECT_EQ(learning.situations, 1U);
}

TEST_F(HandoffPlannerMemory, GoesTheWayThatTheAdmissionChoseInTheSameSituation) {
  const LearningPlanner by(adapter, options);
  const HandoffStep own = plan(by);
  ASSERT_EQ(own.groups.size(), 1U);
  WayChoice waits = own.chosen;
  waits.way = PlanWay::wait;
  waits.given_up = true;
  const HandoffStep followed = plan(by, waits);
  EXPECT_TRUE(followed.groups.empty());
  EXPECT_EQ(followed.chosen.way, PlanWay::wait);
  EXPECT_TRUE(followed.chosen.given_up);
  EXPECT_TRUE(followed.is_chosen) << "its time says as much about its way";
  EXPECT_GT(followed.planned_s, own.planned_s);
  ++waits.situation.workers;
  EXPECT_EQ(plan(by, waits).groups.size(), 1U) << "more workers than when the loads were ordered";
}

}  // namespace
}  // namespace tandem::test
