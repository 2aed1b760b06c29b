#include "engine/batching/line/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace tandem {
namespace {

using enum Lifecycle;
using On = LifeEvent;
using testing::ElementsAre;

constexpr std::array kStates = {arriving, waiting, admitted, running, preempted, ended};
constexpr std::array kEvents = {On::enqueue, On::admit, On::begin, On::send_back, On::end};

TEST(Lifecycle, KnowsTheseTransitionsAndNoOther) {
  // For each state what the events lead to, in the order of kEvents.
  using Row = std::array<std::optional<Lifecycle>, kEvents.size()>;
  constexpr std::nullopt_t no = std::nullopt;
  const std::array<Row, kStates.size()> table = {{
      {waiting, no, no, no, no},          // arriving
      {no, admitted, no, no, ended},      // waiting
      {no, no, running, waiting, ended},  // admitted
      {no, no, no, preempted, ended},     // running
      {no, running, no, no, ended},       // preempted
      {no, no, no, no, no},               // ended
  }};
  for (std::size_t i = 0; i < kStates.size(); ++i) {
    for (std::size_t k = 0; k < kEvents.size(); ++k) {
      EXPECT_EQ(next(kStates[i], kEvents[k]), table[i][k])
          << to_string(kEvents[k]) << " while " << to_string(kStates[i]);
    }
  }
}

class SequenceTest : public ::testing::Test {
 protected:
  SequenceTest() {
    context_->state = std::make_shared<GenerationState>(1);
    context_->request.prompt = {1, 2, 3, 4};
    context_->request.max_tokens = 3;
  }
  std::unique_ptr<Sequence> make() {
    static const auto tokenizer = Tokenizer::load("data/demo-llama").value();
    return std::make_unique<Sequence>(context_, 0, 7, pool_,
                                      OutputText(*tokenizer, true, {}, false));
  }
  std::unique_ptr<Sequence> make_running() {
    auto sequence = make();
    sequence->life.enter_line();
    sequence->life.admit();
    sequence->life.begin();
    return sequence;
  }

  PagePool pool_{8, 4};
  std::shared_ptr<RequestContext> context_ = std::make_shared<RequestContext>();
};

TEST_F(SequenceTest, RemembersThroughAPreemptionThatItHasBegun) {
  auto sequence = make();
  sequence->life.enter_line();
  sequence->life.admit();
  EXPECT_TRUE(sequence->life.is_in_batch());
  EXPECT_FALSE(sequence->life.has_begun());
  sequence->life.send_back();
  EXPECT_EQ(sequence->life.state(), waiting) << "no step has had rows of it";
  sequence->life.admit();
  sequence->life.begin();
  sequence->life.send_back();
  EXPECT_EQ(sequence->life.state(), preempted);
  EXPECT_FALSE(sequence->life.is_in_batch());
  EXPECT_TRUE(sequence->life.has_begun());
  sequence->life.admit();
  EXPECT_EQ(sequence->life.state(), running);
}

TEST_F(SequenceTest, GivesItsReaderAnEndIfNobodyElseHas) {
  make_running().reset();
  EXPECT_EQ(context_->state->next({})->finish, FinishReason::failed);
}

TEST_F(SequenceTest, LeavesTheEndToWhoeverHasEndedIt) {
  auto sequence = make_running();
  sequence->life.end();
  sequence.reset();
  EXPECT_FALSE(context_->state->next({}).has_value());
}

TEST_F(SequenceTest, HoldsPlacesForTokensInFlightUntilTheyAreLearnt) {
  auto sequence = make_running();
  sequence->enter_step(3, 0, 0);
  EXPECT_EQ(sequence->left_to_compute(), 1);
  EXPECT_EQ(sequence->tokens.pending(), 0) << "the prompt's last token is still to come";
  sequence->enter_step(1, 0, 5);
  sequence->enter_step(1, 0, 2);
  EXPECT_THAT(sequence->tokens.all(), ElementsAre(1, 2, 3, 4, -6, -3));
  EXPECT_EQ(sequence->tokens.known_len(), 4);
  sequence->tokens.learn(4, 70);
  EXPECT_THAT(sequence->tokens.known(9), ElementsAre(1, 2, 3, 4, 70));
  for (int i = 0; i < 3; ++i) sequence->leave_step();
  EXPECT_FALSE(sequence->is_in_flight());
}

TEST_F(SequenceTest, DropsWhatIsInFlightWhenItIsReplayed) {
  auto sequence = make_running();
  sequence->enter_step(4, 0, 0);
  sequence->results.hold({{}, {}, 4, {}});
  sequence->results.find_ending({4, FinishReason::stop, {}});
  sequence->replay();
  EXPECT_THAT(sequence->tokens.all(), ElementsAre(1, 2, 3, 4));
  EXPECT_FALSE(sequence->is_paused());
  EXPECT_EQ(sequence->results.ending().at, -1);
  EXPECT_TRUE(sequence->is_stale(0));
  EXPECT_FALSE(sequence->is_stale(1));
  EXPECT_TRUE(sequence->is_in_flight()) << "the step itself goes on";
}

using SequenceDeathTest = SequenceTest;

TEST_F(SequenceDeathTest, AbortsOnWhatCannotHappen) {
  auto sequence = make();
  EXPECT_DEATH(sequence->life.admit(), "sequence 7: admit while it is arriving");
  EXPECT_DEATH(sequence->life.end(), "end while it is arriving");
  sequence->life.enter_line();
  EXPECT_DEATH(sequence->life.begin(), "begin while it is waiting");
  EXPECT_DEATH(sequence->life.send_back(), "send_back while it is waiting");
  sequence->life.admit();
  sequence->life.begin();
  EXPECT_DEATH(sequence->life.admit(), "admit while it is running");
  EXPECT_DEATH(sequence->life.begin(), "begin while it is running");
  sequence->life.end();
  EXPECT_DEATH(sequence->life.end(), "end while it is ended");
  EXPECT_DEATH(sequence->life.send_back(), "send_back while it is ended");
}

TEST_F(SequenceDeathTest, AbortsOnATokenOutOfTurn) {
  auto sequence = make_running();
  sequence->enter_step(4, 0, 0);
  EXPECT_DEATH(sequence->tokens.learn(5, 70), "token 5 after 4");
}

}  // namespace
}  // namespace tandem
