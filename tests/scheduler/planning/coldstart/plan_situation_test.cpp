// Tests which steps count as alike: scheduler/planning/coldstart/plan_situation.h.
#include <gtest/gtest.h>

#include "scheduler/planning/coldstart/plan_situation.h"
#include "tests/scheduler/planning/coldstart/plan_cases.h"

namespace tandem {
namespace {

struct Case {
  std::int32_t rows = 256;
  int adapters = 1;
  double gbps = 10;
};

// Makes a request with adapters that have equally many rows.
PlanRequest cold_request(std::int32_t rows, int adapters = 1) {
  PlanRequest request;
  request.rows = rows;
  for (int i = 0; i < adapters; ++i) {
    ColdAdapter& adapter = request.adapters.emplace_back();
    adapter.rows = rows / adapters;
    adapter.layers.assign(32, {.a_bytes = 1 << 20, .b_bytes = 1 << 21, .sites = 1});
  }
  return request;
}

// The situation of a load that was ordered `ago` seconds ago as planned, or that is still to be
// ordered.
PlanSituation situation(const Case& of, bool ordered, double ago = 0) {
  CostModel costs;
  costs.link_bytes_per_s = of.gbps * 1e9;
  PlanRequest request = cold_request(of.rows, of.adapters);
  request.workers = 12;
  if (ordered) {
    const HandoffPlan plan = plan_handoff(costs, request);
    put_on_their_way(costs, plan.order, ago, request.adapters);
  }
  return PlanSituation::of(costs, request);
}

TEST(PlanSituation, CountsWhatIsStillRead) {
  CostModel costs;
  PlanRequest request = cold_request(64);
  ColdAdapter& adapter = request.adapters.front();
  const PlanSituation whole = PlanSituation::of(costs, request);
  adapter.host_arrives.assign(32, 50e-3);
  EXPECT_GT(PlanSituation::of(costs, request).link, whole.link);
}

// While adapters are read from disk, half of the workers have no work; the times of the others say
// little about the times of all.
TEST(PlanSituation, IsAnotherOneWithHalfOfTheWorkers) {
  CostModel costs;
  PlanRequest request;
  request.rows = 64;
  request.workers = 12;
  const PlanSituation all = PlanSituation::of(costs, request);
  request.workers = 11;
  EXPECT_EQ(PlanSituation::of(costs, request), all) << "one of twelve makes no difference";
  for (int workers = 2; workers <= 64; ++workers) {
    request.workers = workers;
    const PlanSituation whole = PlanSituation::of(costs, request);
    request.workers = workers / 2;
    EXPECT_NE(PlanSituation::of(costs, request), whole) << workers;
  }
}

// A core that was idle may be used by others for a while.
TEST(PlanSituation, IsAnotherOneWhereWorkersSleptUntilAMomentBefore) {
  CostModel costs;
  PlanRequest request = cold_request(64);
  request.workers = 12;
  const PlanSituation awake = PlanSituation::of(costs, request);
  request.workers_just_woken_for = 5e-3;
  EXPECT_NE(PlanSituation::of(costs, request), awake);
  request.starts_in = 4e-3;
  EXPECT_EQ(PlanSituation::of(costs, request).just_woken, 1);
  request.starts_in = 6e-3;
  EXPECT_EQ(PlanSituation::of(costs, request).just_woken, 0) << "by then they are awake for long";
  request.starts_in = 0;
  request.workers = 0;
  EXPECT_EQ(PlanSituation::of(costs, request).just_woken, 0) << "there are none";
}

// The order of the load does not matter, because otherwise admissions could not use the lessons of
// steps.
TEST(PlanSituation, IsThatOfTheAdmissionWhenTheStepIsPlanned) {
  for (const Case& each : {Case{256, 1, 10}, Case{64, 8, 10}, Case{8, 1, 25}, Case{2000, 8, 55}}) {
    EXPECT_EQ(situation(each, true, 200e-6), situation(each, false)) << each.rows;
  }
}

// A step of a burst is considered for admission before the earlier steps have run, and planned
// after them.
TEST(PlanSituation, CountsFromWhereItsStepBegins) {
  constexpr double kBefore_s = 20e-3;
  CostModel costs;
  costs.link_bytes_per_s = 10e9;
  PlanRequest request = cold_request(64);
  ColdAdapter& adapter = request.adapters.front();
  const PlanSituation at_once = PlanSituation::of(costs, request);
  EXPECT_GT(at_once.link, 0);
  request.starts_in = kBefore_s;
  request.link_busy_for = kBefore_s;
  EXPECT_EQ(PlanSituation::of(costs, request), at_once);
  adapter.a_arrives.assign(32, kBefore_s + 32 * costs.load_time(3 << 20, 1));
  adapter.b_arrives = adapter.a_arrives;
  EXPECT_EQ(PlanSituation::of(costs, request), at_once);
  request.starts_in = 1;
  EXPECT_EQ(PlanSituation::of(costs, request).link, 0) << "all is there by then";
}

TEST(PlanSituation, TellsStepsApartThatAreNotAlike) {
  EXPECT_NE(situation({.rows = 64}, false), situation({}, false));
  EXPECT_NE(situation({.adapters = 4}, false), situation({}, false));
  EXPECT_NE(situation({.gbps = 55}, false), situation({}, false));
  EXPECT_EQ(situation({.rows = 300, .gbps = 10.5}, false), situation({}, false));
}

}  // namespace
}  // namespace tandem
