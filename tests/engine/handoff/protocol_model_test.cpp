// Explores the handoff's protocol in every order of its parties' actions. Each of its rules is also
// broken once, and the exploration must find the resulting error.
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/handoff/protocol_model.h"
#include "tests/support/sanitized.h"

namespace tandem::protocol {
namespace {

const bool kAll = !sanitized();  // one thread and little memory: nothing for a sanitizer to find

// The load of one adapter evicts the other, which has been answered by then.
constexpr Scenario kOneAfterTheOther = {.same_slot = true};
// A step is running while the results of the previous one are unknown.
constexpr Scenario kTwoStepsEach = {.steps = 2, .requests = 1};
// Both workers share every job's columns, unless only one of them is live.
constexpr Scenario kTwoWorkers = {.workers = 2, .layers = 1, .same_slot = true};
// There are two cold groups in a step, or in two steps at once.
constexpr Scenario kSideBySide = {};

constexpr Fault kFaults[] = {Fault::none, Fault::death, Fault::stall, Fault::garbage};

std::string text_of(const Verdict& verdict) {
  std::string text = verdict.violation + " after:";
  for (const std::string& action : verdict.trace) text += "\n  " + action;
  return text;
}

void expect_sound(Scenario scenario, Fault fault, std::size_t least_states) {
  scenario.fault = fault;
  const Verdict verdict = explore(scenario);
  EXPECT_EQ(verdict.violation, "") << text_of(verdict);
  EXPECT_GT(verdict.states, least_states);
  EXPECT_GT(verdict.ends, 0U);
}

class ProtocolUnder : public ::testing::TestWithParam<Fault> {};

TEST_P(ProtocolUnder, AddsEachDeltaOnceWhenAdaptersFollowEachOther) {
  expect_sound(kOneAfterTheOther, GetParam(), 20'000);
}

TEST_P(ProtocolUnder, AddsEachDeltaOnceInTwoStepsOfARequest) {
  expect_sound(kTwoStepsEach, GetParam(), 30'000);
}

TEST_P(ProtocolUnder, AddsEachDeltaOnceForTwoAdaptersAtATime) {
  if (!kAll) GTEST_SKIP() << "without sanitizers only";
  expect_sound(kSideBySide, GetParam(), 200'000);
}

TEST_P(ProtocolUnder, AddsEachDeltaOnceWithTwoWorkers) {
  if (!kAll) GTEST_SKIP() << "without sanitizers only";
  expect_sound(kTwoWorkers, GetParam(), 80'000);
}

std::string name_of_fault(const ::testing::TestParamInfo<Fault>& fault) {
  switch (fault.param) {
    case Fault::none:
      return "NoFault";
    case Fault::death:
      return "Death";
    case Fault::stall:
      return "Stall";
    case Fault::garbage:
      return "Garbage";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Faults, ProtocolUnder, ::testing::ValuesIn(kFaults), name_of_fault);

struct Breach {
  const char* name;
  Rule rule;
  Scenario scenario;
  Fault fault;
  const char* violation;
  bool quick = true;
};

class ProtocolWithout : public ::testing::TestWithParam<Breach> {};

TEST_P(ProtocolWithout, TheRuleFails) {
  const Breach& breach = GetParam();
  if (!kAll && !breach.quick) GTEST_SKIP() << "without sanitizers only";
  Scenario scenario = breach.scenario;
  scenario.fault = breach.fault;
  scenario.broken = breach.rule;
  const Verdict verdict = explore(scenario);
  EXPECT_EQ(verdict.violation, breach.violation) << text_of(verdict);
}

constexpr const char* kWrong = "a wrong delta was added";
const Breach kBreaches[] = {
    {"OnlyTheVeryJobIsAnAnswer", Rule::done_may_be_later, kOneAfterTheOther, Fault::garbage,
     kWrong},
    {"ReadyComesAfterTheCopy", Rule::ready_before_the_copy, kOneAfterTheOther, Fault::none, kWrong},
    {"ReadyWordsHoldTheLoadsGeneration", Rule::any_ready_word_counts, kOneAfterTheOther,
     Fault::none, kWrong},
    {"TheDoorbellComesAfterTheRows", Rule::doorbell_before_the_rows, kOneAfterTheOther, Fault::none,
     kWrong},
    {"LoraObeysTickets", Rule::lora_ignores_tickets, kTwoStepsEach, Fault::none, kWrong},
    {"LoraObeysTicketsOfTwoWorkers",
     Rule::lora_ignores_tickets,
     {.workers = 2, .requests = 1},
     Fault::none,
     "a delta was added twice"},
    {"ABrokenMailboxRestsUntilQuiet", Rule::reuse_before_quiet, kTwoWorkers, Fault::stall, kWrong,
     false},
    {"AWorkerSlotIsEmptyWhenItsWorkerIsDead", Rule::dead_until_reaped, kTwoWorkers, Fault::death,
     kWrong, false},
    {"VoidRowsAreThrownAway", Rule::timed_out_are_kept, kOneAfterTheOther, Fault::none,
     "a delta was missed"},
    {"LaterStepsOfTimedOutRowsAreThrownAway", Rule::later_steps_are_kept, kTwoStepsEach,
     Fault::none, "rows were kept behind timed-out ones"},
    {"AcceptHasADeadline", Rule::accept_waits_for_ever, kOneAfterTheOther, Fault::death,
     "nothing goes on, and a request is unanswered"},
    {"ProgressBeyondTheLastJobIsGarbage", Rule::quiet_trusts_progress, kTwoWorkers, Fault::garbage,
     kWrong, false},
    {"ANewWorkerLeavesOldJobsBehind", Rule::new_worker_takes_old_jobs, kOneAfterTheOther,
     Fault::death, "something goes on for ever"},
};

std::string name_of_breach(const ::testing::TestParamInfo<Breach>& breach) {
  return breach.param.name;
}

INSTANTIATE_TEST_SUITE_P(Rules, ProtocolWithout, ::testing::ValuesIn(kBreaches), name_of_breach);

}  // namespace
}  // namespace tandem::protocol
