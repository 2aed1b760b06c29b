#include "engine/batching/batch/continuous_batcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/batching/request_limits.h"

namespace tandem {
namespace {

const Tokenizer& demo_tokenizer() {
  static const auto tokenizer = Tokenizer::load("data/demo-llama").value();
  return *tokenizer;
}

// Runs a scheduler and simulates the engine: every planned row is "computed", and a sequence whose
// last token was computed gets one more.
class Simulation {
 public:
  Simulation(const BatchLimits& limits, std::int32_t num_pages, std::int32_t page_tokens,
             const LineOptions& line = {})
      : Simulation(limits, PoolShape{num_pages, page_tokens, 1, {}}, line) {}
  Simulation(const BatchLimits& limits, const PoolShape& pool, const LineOptions& line = {})
      : limits_(limits),
        pool_(pool),
        prefixes_(pool_),
        scheduler_(limits, pool_, &prefixes_, line) {}

  Sequence* add(std::int64_t prompt_len, std::int32_t max_tokens, std::int32_t priority = 0,
                bool prompt_logprobs = false) {
    auto context = std::make_shared<RequestContext>();
    context->state = std::make_shared<GenerationState>(1);
    const auto token = static_cast<TokenId>(arrivals_ % num_prompts);
    context->request.prompt.assign(static_cast<std::size_t>(prompt_len), token);
    context->request.max_tokens = max_tokens;
    context->request.priority = priority;
    context->request.prompt_logprobs = prompt_logprobs;
    context->request.tenant = tenant;
    context->request.ttft_deadline_s = deadline_s;
    context->submitted = clock.now();
    auto sequence = std::make_unique<Sequence>(context, 0, arrivals_++, pool_,
                                               OutputText(demo_tokenizer(), true, {}, false));
    Sequence* raw = sequence.get();
    scheduler_.add(std::move(sequence));
    return raw;
  }

  // Plans and simulates one step. Checks the invariants of every plan.
  std::vector<ScheduledSequence> step() {
    std::vector<ScheduledSequence> plan = scheduler_.plan();
    std::set<const Sequence*> seen;
    std::int32_t rows = 0;
    for (const auto& [sequence, num_tokens] : plan) {
      EXPECT_TRUE(seen.insert(sequence).second) << "planned twice";
      EXPECT_GT(num_tokens, 0);
      EXPECT_LE(num_tokens, sequence->left_to_compute());
      EXPECT_LE(pool_.shape().table_pages(sequence->computed() + num_tokens),
                static_cast<std::int32_t>(sequence->pages.table().num_pages()));
      rows += num_tokens;
    }
    EXPECT_LE(rows, limits_.max_num_batched_tokens);
    EXPECT_LE(scheduler_.num_running(), static_cast<std::size_t>(limits_.max_num_seqs));
    for (const auto& [sequence, num_tokens] : plan) {
      auto& begun = sequence->context().first_scheduled;
      if (!begun) begun = clock.now();
      if (!sequence->life.has_begun()) sequence->life.begin();
    }
    clock.advance(step_time);
    for (const auto& [sequence, num_tokens] : plan) play(*sequence, num_tokens);
    return plan;
  }

  // Does what the engine does between two steps; returns the number of sequences given up.
  std::size_t give_up_late() {
    WaitingLine& line = scheduler_.line();
    line.tick(clock.now());
    const std::vector<Sequence*> late = line.late(clock.now(), scheduler_.num_running() == 0);
    for (Sequence* sequence : late) (void)scheduler_.remove(sequence);
    return late.size();
  }

  std::uint64_t num_prompts = 1000;  // number of different prompts; the others differ in length
  // Settings of the sequences added next.
  std::string tenant;
  double deadline_s = 0;
  ManualClock clock;
  Duration step_time = std::chrono::milliseconds(10);

  ContinuousBatcher& scheduler() { return scheduler_; }
  PagePool& pool() { return pool_; }
  const std::vector<std::uint64_t>& finished() const { return finished_; }
  const std::vector<double>& first_tokens() const { return first_tokens_; }

 private:
  void play(Sequence& sequence, std::int32_t num_tokens) {
    std::int64_t scored = 0;
    if (sequence.prompt_logprobs.are_wanted()) {
      const std::int64_t end =
          std::min(sequence.computed() + num_tokens, sequence.tokens.prompt_len() - 1);
      scored = std::max<std::int64_t>(
          end - std::max(sequence.computed(), sequence.prompt_logprobs.asked()), 0);
    }
    sequence.enter_step(num_tokens, static_cast<std::int32_t>(scored), 0);
    sequence.leave_step();
    if (sequence.tokens.pending() == 0) return;
    sequence.tokens.learn(sequence.tokens.known_len(), 6);
    RequestContext& context = sequence.context();
    if (!context.first_token) {
      context.first_token = clock.now();
      first_tokens_.push_back(seconds_between(context.submitted, clock.now()));
      scheduler_.line().saw_prefill(seconds_between(*context.first_scheduled, clock.now()),
                                    sequence.tokens.prompt_len());
    }
    if (sequence.tokens.output_len() < sequence.context().request.max_tokens) return;
    finished_.push_back(sequence.arrival);
    (void)scheduler_.remove(&sequence);
  }

  BatchLimits limits_;
  PagePool pool_;
  PrefixCache prefixes_;
  ContinuousBatcher scheduler_;
  std::uint64_t arrivals_ = 0;
  std::vector<std::uint64_t> finished_;
  std::vector<double> first_tokens_;  // seconds after arrival
};

BatchLimits limits(std::int32_t seqs, std::int32_t tokens, std::int32_t chunk = 0) {
  return {seqs, tokens, chunk, max_logit_rows(seqs)};
}

TEST(ContinuousBatcher, PlansNothingWhenThereIsNothing) {
  Simulation simulation(limits(4, 16), 8, 4);
  EXPECT_TRUE(simulation.step().empty());
}

class OpenGate final : public AdmissionGate {
 public:
  bool enter(Sequence&) override { return true; }
  void leave(const Sequence&) override {}
  bool is_waiting() const override { return false; }
};

TEST(ContinuousBatcher, TellsWhichSequenceHasTooFewPagesThoughNothingRuns) {
  Simulation simulation(limits(4, 16), 4, 4);
  OpenGate gate;
  simulation.scheduler().set_gate(gate);
  auto pinned = simulation.pool().take_chunks(2 * simulation.pool().shape().chunks_per_page);
  Sequence* first = simulation.add(12, 2);
  simulation.add(12, 2);
  EXPECT_TRUE(simulation.step().empty());
  EXPECT_EQ(simulation.scheduler().stuck(), first);
  pinned->clear();
  EXPECT_EQ(simulation.step().size(), 1U);
  EXPECT_EQ(simulation.scheduler().stuck(), nullptr);
}

TEST(ContinuousBatcher, CutsALongPromptIntoChunksBesideDecodingRows) {
  Simulation simulation(limits(4, 8), 64, 4);
  Sequence* first = simulation.add(3, 100);
  simulation.step();
  Sequence* second = simulation.add(20, 100);
  const auto plan = simulation.step();
  ASSERT_EQ(plan.size(), 2U);
  EXPECT_EQ(plan[0].sequence, first);
  EXPECT_EQ(plan[0].num_tokens, 1);
  EXPECT_EQ(plan[1].sequence, second);
  EXPECT_EQ(plan[1].num_tokens, 7);
}

TEST(ContinuousBatcher, KeepsAChunkUnderItsOwnLimit) {
  Simulation simulation(limits(4, 100, 7), 64, 4);
  simulation.add(20, 1);
  EXPECT_EQ(simulation.step()[0].num_tokens, 7);
  EXPECT_EQ(simulation.step()[0].num_tokens, 7);
  EXPECT_EQ(simulation.step()[0].num_tokens, 6);
  EXPECT_EQ(simulation.finished().size(), 1U);
}

TEST(ContinuousBatcher, ComputesASequenceAgainOnceItOutgrowsItsRotaryEmbedding) {
  BatchLimits bounds = limits(4, 100);
  bounds.rotary = {8, true};
  Simulation simulation(bounds, 64, 4);
  Sequence* sequence = simulation.add(7, 100);
  Sequence* other = simulation.add(20, 100);
  EXPECT_EQ(simulation.step().size(), 2U);
  EXPECT_EQ(sequence->pages.rotary_length(), 0);
  EXPECT_EQ(other->pages.rotary_length(), 9);
  EXPECT_EQ(simulation.step()[0].num_tokens, 1);
  ASSERT_EQ(sequence->tokens.size(), 9);
  const auto plan = simulation.step();
  ASSERT_EQ(plan.size(), 2U);
  EXPECT_EQ(plan[0].num_tokens, 1) << "the other one goes on";
  EXPECT_EQ(plan[1].sequence, sequence);
  EXPECT_EQ(plan[1].num_tokens, 9) << "no page of its old keys is found";
  EXPECT_EQ(sequence->pages.rotary_length(), 9);
  EXPECT_EQ(simulation.step()[0].num_tokens, 1);
}

TEST(ContinuousBatcher, ScoresThePromptOnceThoughThePreemptedSequenceIsComputedAgain) {
  Simulation simulation(limits(4, 100), 64, 4);
  Sequence* sequence = simulation.add(20, 100, 0, true);
  EXPECT_TRUE(sequence->prompt_logprobs.are_wanted());
  simulation.step();
  ASSERT_EQ(sequence->tokens.output_len(), 1);
  sequence->pages.free();
  EXPECT_FALSE(sequence->prompt_logprobs.are_wanted());
}

TEST(ContinuousBatcher, ASequenceHoldsTheWindowAndTheRowsOfAStepInWindowedLayers) {
  BatchLimits chunks = limits(4, 100);
  chunks.max_prefill_chunk = 10;
  Simulation simulation(chunks, PoolShape{64, 4, 1, {1, 2, 16, 10}});
  const Sequence* sequence = simulation.add(90, 30);
  const PoolShape& shape = simulation.pool().shape();
  bool has_given_back = false;
  while (!simulation.step().empty() && simulation.finished().empty()) {
    const BlockTable& table = sequence->pages.table();
    EXPECT_LE(table.num_held(), shape.pages_for(sequence->tokens.size()));
    const auto pages = static_cast<std::int64_t>(table.num_pages());
    EXPECT_GE(table.num_held(), pages + 2 * std::min<std::int64_t>(pages, 16 / 4));
    has_given_back = has_given_back || !table.holds_all(0);
  }
  EXPECT_TRUE(has_given_back);
}

TEST(ContinuousBatcher, PreemptsAndFinishesSequencesOfAModelWithWindows) {
  Simulation simulation(limits(6, 24), PoolShape{70, 4, 1, {1, 2, 12, 24}});
  for (std::int64_t i = 0; i < 12; ++i) simulation.add(5 + 7 * i, 40);
  while (simulation.finished().size() < 12) ASSERT_FALSE(simulation.step().empty());
  EXPECT_GT(simulation.scheduler().num_preemptions(), 0U);
  EXPECT_EQ(simulation.pool().counts().kv, 0);
}

TEST(ContinuousBatcher, ServesInOrderOfArrivalWithinAPriority) {
  Simulation simulation(limits(1, 100), 64, 4);
  simulation.add(3, 2, 0);
  simulation.add(3, 2, 1);
  simulation.add(3, 2, 0);
  simulation.add(3, 2, -1);
  while (!simulation.step().empty()) {
  }
  EXPECT_EQ(simulation.finished(), (std::vector<std::uint64_t>{3, 0, 2, 1}));
}

TEST(ContinuousBatcher, DoesNotLetAShortRequestOvertakeOneThatWaitsForPages) {
  Simulation simulation(limits(8, 100), 8, 4);
  simulation.add(16, 8);
  simulation.step();
  simulation.add(24, 1);  // does not fit yet
  simulation.add(1, 1);   // would fit
  const auto plan = simulation.step();
  ASSERT_EQ(plan.size(), 1U);
  EXPECT_EQ(plan[0].sequence->arrival, 0U);
}

TEST(ContinuousBatcher, PreemptsTheNewestWhenPagesRunOut) {
  Simulation simulation(limits(8, 100), 6, 4);
  simulation.add(7, 16);
  simulation.step();
  Sequence* newer = simulation.add(7, 16);
  while (simulation.scheduler().num_preemptions() == 0) ASSERT_FALSE(simulation.step().empty());
  EXPECT_EQ(newer->computed(), 0);
  EXPECT_TRUE(newer->pages.table().pages().empty());
  EXPECT_EQ(simulation.scheduler().num_waiting(), 1U);
  while (!simulation.step().empty()) {
  }
  EXPECT_EQ(simulation.finished(), (std::vector<std::uint64_t>{0, 1}));
}

TEST(ContinuousBatcher, FreesThePagesOfARemovedSequence) {
  Simulation simulation(limits(8, 100), 6, 4);
  Sequence* sequence = simulation.add(7, 16);
  simulation.step();
  EXPECT_EQ(simulation.pool().num_free(), 4);
  (void)simulation.scheduler().remove(sequence);
  EXPECT_EQ(simulation.pool().available_pages(), 6);
  EXPECT_TRUE(simulation.step().empty());
}

TEST(ContinuousBatcher, LetsATenantWithFiftyRequestsStarveNobody) {
  for (const bool fair : {false, true}) {
    Simulation simulation(limits(2, 100), 64, 4, {.fair = fair});
    simulation.tenant = "busy";
    for (int i = 0; i < 50; ++i) simulation.add(3, 4);
    simulation.step();
    simulation.tenant = "quiet";
    const std::uint64_t quiet = simulation.add(3, 4)->arrival;
    while (!simulation.step().empty()) {
    }
    const auto& finished = simulation.finished();
    ASSERT_EQ(finished.size(), 51U);
    const auto place = std::find(finished.begin(), finished.end(), quiet) - finished.begin();
    EXPECT_GE(place, fair ? 2 : 50);
    EXPECT_LE(place, fair ? 3 : 50);
  }
}

// Requests arrive at twice the rate that can be served.
TEST(ContinuousBatcher, ServesThoseThatItDoesNotGiveUpWithinTheirDeadlines) {
  for (const bool early_abort : {false, true}) {
    Simulation simulation(limits(4, 100), 256, 4, {.early_abort = early_abort});
    simulation.deadline_s = 0.2;
    std::size_t added = 0;
    std::size_t given_up = 0;
    for (int step = 0; step < 2000; ++step) {
      // There are four places, and a request takes ten steps: four requests per ten steps can be
      // served.
      for (int i = 0; i < (step % 5 == 0 ? 4 : 0); ++i, ++added) simulation.add(8, 10);
      given_up += simulation.give_up_late();
      simulation.step();
    }
    const auto& times = simulation.first_tokens();
    const auto in_time = static_cast<double>(
        std::count_if(times.begin(), times.end(), [](double each) { return each <= 0.2; }));
    const auto all = static_cast<double>(added);
    if (early_abort) {
      EXPECT_EQ(in_time, static_cast<double>(times.size())) << "one that was let in came too late";
      EXPECT_GT(in_time, 0.45 * all);
      EXPECT_GT(static_cast<double>(given_up), 0.45 * all);
    } else {
      EXPECT_LT(in_time, 0.1 * all) << "without it the line is what all are late by";
      EXPECT_EQ(given_up, 0U);
    }
  }
}

TEST(ContinuousBatcher, FinishesEverythingUnderRandomLoad) {
  for (const unsigned seed : {11U, 12U, 13U, 14U, 15U, 16U}) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const auto seqs = static_cast<std::int32_t>(1 + random() % 8);
    const auto rows = static_cast<std::int32_t>(1 + random() % 40);
    const LineOptions line{.fair = seed % 2 == 0, .max_passed_over = 5};
    Simulation simulation(limits(seqs, rows, static_cast<std::int32_t>(random() % 9)), 20, 3, line);
    simulation.num_prompts = 1 + random() % 4;
    std::size_t added = 0;
    std::int64_t work = 0;
    for (int step = 0; step < 400; ++step) {
      if (random() % 3 == 0) {
        simulation.tenant = std::to_string(added % 3);
        simulation.deadline_s = seed % 3 == 0 && added % 2 == 0 ? 1000 : 0;
        simulation.scheduler().line().tick(simulation.clock.now());
        const auto prompt = static_cast<std::int64_t>(1 + random() % 40);
        const auto output = static_cast<std::int32_t>(1 + random() % 20);
        simulation.add(prompt, output, static_cast<std::int32_t>(random() % 2), random() % 3 == 0);
        work += prompt + output;
        ++added;
      }
      simulation.step();
    }
    // Each step computes at least one row. Preemptions repeat work, but the oldest is never
    // preempted.
    for (std::int64_t step = 0; step < 60 * work && !simulation.step().empty(); ++step) {
    }
    EXPECT_EQ(simulation.finished().size(), added);
    EXPECT_EQ(simulation.pool().available_pages(), 20);
    EXPECT_EQ(simulation.pool().counts().kv, 0);
  }
}

}  // namespace
}  // namespace tandem
