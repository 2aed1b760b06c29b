#include "engine/batching/line/waiting_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tandem {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

const Tokenizer& demo_tokenizer() {
  static const auto tokenizer = Tokenizer::load("data/demo-llama").value();
  return *tokenizer;
}

class WaitingLineTest : public ::testing::Test {
 protected:
  struct Asked {
    std::int32_t priority = 0;
    std::string tenant = {};
    double deadline_s = 0;
    std::size_t prompt = 10;  // tokens
  };

  std::unique_ptr<Sequence> make(const Asked& asked) {
    auto context = std::make_shared<RequestContext>();
    context->state = std::make_shared<GenerationState>(1);
    context->submitted = clock_.now();
    context->request.prompt.assign(asked.prompt, 7);
    context->request.priority = asked.priority;
    context->request.tenant = asked.tenant;
    context->request.ttft_deadline_s = asked.deadline_s;
    return std::make_unique<Sequence>(context, 0, arrivals_++, pool_,
                                      OutputText(demo_tokenizer(), true, {}, false));
  }
  void add(WaitingLine& line, const Asked& asked) { line.add(make(asked)); }
  // Returns the line as it is arranged now.
  static std::vector<std::uint64_t> order(WaitingLine& line) {
    line.arrange({});
    std::vector<std::uint64_t> arrivals;
    for (const auto& each : line.list()) arrivals.push_back(each->arrival);
    return arrivals;
  }
  std::vector<std::uint64_t> late(WaitingLine& line, bool idle = false) {
    std::vector<std::uint64_t> arrivals;
    for (const Sequence* each : line.late(clock_.now(), idle)) arrivals.push_back(each->arrival);
    return arrivals;
  }

  PagePool pool_{64, 4};
  ManualClock clock_;
  std::uint64_t arrivals_ = 0;
};

TEST_F(WaitingLineTest, IsByPriorityAndArrivalUnlessToldOtherwise) {
  WaitingLine line({});
  for (const std::int32_t priority : {0, 1, 0, -1, 1}) add(line, {.priority = priority});
  EXPECT_THAT(order(line), ElementsAre(3, 0, 2, 1, 4));
  // A sequence that ran goes back to its old place.
  std::unique_ptr<Sequence> first = line.admit(1);
  EXPECT_EQ(first->arrival, 0U);
  EXPECT_THAT(order(line), ElementsAre(3, 2, 1, 4));
  line.put_back(std::move(first));
  EXPECT_THAT(order(line), ElementsAre(3, 0, 2, 1, 4));
  for (const auto& each : line.list()) EXPECT_EQ(each->place.turn(), 0U);
}

TEST_F(WaitingLineTest, LetsPrioritiesCountForNothingIfToldSo) {
  WaitingLine line({.by_priority = false});
  for (const std::int32_t priority : {0, 1, -1}) add(line, {.priority = priority});
  EXPECT_THAT(order(line), ElementsAre(0, 1, 2));
}

TEST_F(WaitingLineTest, TakesASequenceOutForWhateverReason) {
  WaitingLine line({});
  add(line, {});
  add(line, {});
  const Sequence* const first = line.list().front().get();
  EXPECT_EQ(line.remove(first)->arrival, 0U);
  const auto other = make({});
  EXPECT_EQ(line.remove(other.get()), nullptr);
  EXPECT_THAT(order(line), ElementsAre(1));
}

TEST_F(WaitingLineTest, FindsThoseWhoseFirstTokenWouldComeTooLate) {
  WaitingLine line({});
  add(line, {});
  add(line, {.deadline_s = 1});
  add(line, {.deadline_s = 3});
  EXPECT_THAT(late(line), ElementsAre());
  clock_.advance(milliseconds(900));
  EXPECT_THAT(late(line), ElementsAre());
  line.saw_prefill(0.5, 10);
  EXPECT_THAT(late(line), ElementsAre(1));
  EXPECT_THAT(late(line, /*idle=*/true), ElementsAre()) << "nothing runs: it may be tried";
  clock_.advance(milliseconds(200));
  EXPECT_THAT(late(line, /*idle=*/true), ElementsAre(1)) << "it is too late anyhow";
  EXPECT_EQ(line.counts().aborts_unreachable, 1U);
  EXPECT_EQ(line.counts().aborts_expired, 1U);
  EXPECT_GE(line.retry_after_s(), 1);
}

TEST_F(WaitingLineTest, GivesNothingUpThatHasBegunHereOrElsewhere) {
  WaitingLine line({});
  add(line, {.deadline_s = 1});
  auto continued = make({.deadline_s = 1});
  continued->context().request.before.push_back({.tokens = {1, 2}});
  line.add(std::move(continued));
  std::unique_ptr<Sequence> begun = line.admit(0);
  begun->context().first_scheduled = clock_.now();
  line.put_back(std::move(begun));
  clock_.advance(std::chrono::seconds(9));
  EXPECT_THAT(late(line), ElementsAre());
}

TEST_F(WaitingLineTest, GivesNothingUpWhereEarlyAbortIsOff) {
  WaitingLine line({.early_abort = false});
  add(line, {.deadline_s = 1});
  clock_.advance(std::chrono::seconds(9));
  EXPECT_THAT(late(line), ElementsAre());
}

TEST_F(WaitingLineTest, TakesTheNewestWithADeadlineFirstWhileItIsOverloadedAndNoLonger) {
  WaitingLine line({});
  line.tick(clock_.now());
  for (int i = 0; i < 5; ++i) {
    add(line, {});
    add(line, {.deadline_s = 100});
    clock_.advance(milliseconds(30));
    line.tick(clock_.now());
  }
  EXPECT_TRUE(line.counts().overloaded);
  EXPECT_THAT(order(line), ElementsAre(9, 7, 5, 3, 1, 0, 2, 4, 6, 8));
  // Sequences that arrive meanwhile stand behind them until the line is arranged.
  add(line, {.deadline_s = 100});
  EXPECT_EQ(line.list().back()->arrival, 10U);
  EXPECT_FALSE(line.is_arranged());
  EXPECT_EQ(order(line).front(), 10U);
  // More sequences are admitted than arrive.
  for (int i = 0; i < 5; ++i) {
    (void)line.admit(0);
    (void)line.admit(0);
    clock_.advance(milliseconds(30));
    line.tick(clock_.now());
  }
  EXPECT_FALSE(line.counts().overloaded);
  add(line, {.deadline_s = 100});
  add(line, {});
  EXPECT_THAT(order(line), ElementsAre(8, 11, 12));
  for (const auto& each : line.list()) EXPECT_EQ(each->place.turn(), 0U);
}

TEST_F(WaitingLineTest, LetsOneRequestOfATenantPassFiftyOfAnother) {
  WaitingLine line({.fair = true});
  for (int i = 0; i < 50; ++i) add(line, {.tenant = "busy"});
  add(line, {.tenant = "quiet"});
  EXPECT_EQ(order(line)[1], 50U);
  EXPECT_EQ(line.counts().tenants, 2U);
  // Once the busy tenant has been served, the other goes first.
  std::unique_ptr<Sequence> running = line.admit(0);
  EXPECT_EQ(order(line)[0], 50U);
  EXPECT_DOUBLE_EQ(running->place.entry().tenant->service, 10);
}

TEST_F(WaitingLineTest, ChargesAPromptOnceAndForgetsWhoIsGone) {
  WaitingLine line({.fair = true});
  add(line, {.tenant = "a"});
  std::unique_ptr<Sequence> running = line.admit(0);
  line.put_back(std::move(running));
  running = line.admit(0);
  EXPECT_DOUBLE_EQ(running->place.entry().tenant->service, 10);
  EXPECT_EQ(line.counts().tenants, 1U);
  running.reset();
  EXPECT_EQ(line.counts().tenants, 0U);
}

TEST_F(WaitingLineTest, PutsOneThatRanBeforeAllWhoseTurnsWereGiven) {
  WaitingLine line({.fair = true});
  for (int i = 0; i < 3; ++i) add(line, {.tenant = "a"});
  for (int i = 0; i < 3; ++i) add(line, {.tenant = "b"});
  EXPECT_THAT(order(line), ElementsAre(0, 3, 1, 4, 2, 5));
  std::unique_ptr<Sequence> running = line.admit(2);
  line.put_back(std::move(running));
  EXPECT_EQ(line.list().front()->arrival, 1U);
  EXPECT_EQ(order(line).front(), 1U);
}

}  // namespace
}  // namespace tandem
