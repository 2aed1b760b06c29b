// Tests an executor without an engine: the plans are made by hand.
#include "engine/executor/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <string>
#include <vector>

#include "engine/adapters/adapter_store.h"
#include "engine/loader/weights.h"
#include "tests/support/failing_device.h"
#include "tests/support/small_model.h"
#include "tests/support/test_device.h"

namespace tandem::test {
namespace {

using Tokens = std::vector<TokenId>;

constexpr std::int32_t kPages = 200;
constexpr std::int32_t kPageTokens = 4;
constexpr std::int32_t kPagesOfOne = 8;  // consecutive pages of each sequence
const Tokens kPrompt = {5, 42, 79, 116, 153, 190, 227};

// Makes plans with numbered sequences: sequence s has pages s * kPagesOfOne and those after it.
struct Plan : StepPlan {
  // Samples greedily after the last `sampled` of the tokens.
  Plan& add(int sequence, std::int64_t start, const Tokens& ids, std::int32_t sampled = 1,
            AdapterSlot adapter = {}) {
    Entry entry;
    entry.id = static_cast<std::uint64_t>(1000 + sequence);
    entry.start = start;
    const auto count = static_cast<std::int32_t>(ids.size());
    entry.tokens = {static_cast<std::int32_t>(tokens.size()), count};
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    entry.pages = {static_cast<std::int32_t>(pages.size()), kPagesOfOne};
    for (int i = 0; i < kPagesOfOne; ++i) pages.emplace_back(sequence * kPagesOfOne + i);
    entry.samples = {static_cast<std::int32_t>(samples.size()), sampled};
    for (std::int32_t row = count - sampled; row < count; ++row) samples.push_back({row, {}});
    entry.adapter = adapter;
    entries.push_back(entry);
    return *this;
  }
};

class ExecutorTest : public ::testing::Test {
 protected:
  ExecutorTest() {
    store_ = AdapterStore::create(device_, config_, DType::f32, {}).value();
    make_executor({});
    // Adapters take pages from the top; the sequences have the lowest ones.
    for (int i = 0; i < 10 * kPagesOfOne; ++i) taken_.push_back(pool_.take_page());
    EXPECT_EQ(taken_.back(), PageId(10 * kPagesOfOne - 1));
  }
  ~ExecutorTest() override {
    for (const PageId page : taken_) pool_.drop_reference(page);
    executor_.reset();
  }

  void make_executor(const HandoffOptions& handoff) {
    ExecutorOptions options;
    options.model = {64, 32, 128, 16};
    options.step = {64, 8, 32, 256, 1024, 64};
    options.max_device_adapters = 2;
    options.handoff = handoff;
    Device* const one = &device_;
    executor_ = Executor::create(options, config_, *make_dummy_weights(7), DType::f32, {&one, 1},
                                 pool_, store_->host_tier(), clock_, nullptr)
                    .value();
  }
  Tokens tokens_of(const StepResult& result) {
    EXPECT_TRUE(result.status.ok()) << result.status.message();
    Tokens tokens;
    for (const SampledToken& sample : result.samples) tokens.push_back(sample.token);
    return tokens;
  }
  Tokens run(const StepPlan& plan) {
    executor_->enqueue(plan);
    return tokens_of(executor_->wait());
  }
  // Generates `count` tokens after kPrompt, one per step.
  Tokens decode(int sequence, int count, AdapterSlot adapter = {}) {
    Tokens made = run(Plan().add(sequence, 0, kPrompt, 1, adapter));
    for (int i = 1; i < count; ++i) {
      const auto at = static_cast<std::int64_t>(kPrompt.size()) + i - 1;
      made.push_back(run(Plan().add(sequence, at, {made.back()}, 1, adapter)).front());
    }
    return made;
  }
  float first_logprob(int sequence, AdapterSlot adapter) {
    Plan plan;
    plan.add(sequence, 0, kPrompt, 1, adapter).samples.back().how.num_logprobs = 0;
    executor_->enqueue(plan);
    return executor_->wait().samples[0].logprob;
  }
  // Starts a load; neither this function nor the executor waits for it.
  AdapterSlot load(const std::string& name, std::uint64_t seed) {
    Adapter adapter = make_dummy_adapter(
        config_, DType::f32, 16,
        {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}, seed);
    EXPECT_TRUE(store_->add(name, std::move(adapter), false, false).ok());
    const AdapterLease lease = store_->find(name);
    EXPECT_EQ(executor_->tier().start(lease), DeviceTier::Start::on_its_way);
    return executor_->tier().slot(*lease);
  }

  const ModelSpec config_ = small_model(3);
  ManualClock clock_;
  FailingDevice device_{make_test_device()};
  PagePool pool_{kPages, kPageTokens,
                 PoolLayout::of(config_, DType::f32, kPageTokens).chunks_per_page};
  std::vector<PageId> taken_;
  std::unique_ptr<AdapterStore> store_;
  std::unique_ptr<Executor> executor_;
};

TEST_F(ExecutorTest, DecodesWhatOneStepOverAllTokensWouldSample) {
  const Tokens made = decode(0, 5);
  Tokens all = kPrompt;
  all.insert(all.end(), made.begin(), made.end() - 1);
  EXPECT_EQ(run(Plan().add(1, 0, all)), Tokens{made.back()});
}

TEST_F(ExecutorTest, ComputesAPromptInChunksBesideOthersAsAlone) {
  const Tokens alone = decode(0, 2);
  const Tokens first(kPrompt.begin(), kPrompt.begin() + 3);
  const Tokens rest(kPrompt.begin() + 3, kPrompt.end());
  EXPECT_EQ(run(Plan().add(1, 0, first, 0)), Tokens());
  EXPECT_EQ(run(Plan().add(2, 0, {7, 8, 9}).add(1, 3, rest)).back(), alone[0]);
  EXPECT_EQ(run(Plan().add(1, 7, {alone[0]}).add(2, 3, {11})).front(), alone[1]);
}

TEST_F(ExecutorTest, PutsInWhatTheStepBeforeSamples) {
  const Tokens alone = decode(0, 3);
  executor_->enqueue(Plan().add(2, 0, {7, 8}).add(1, 0, kPrompt));
  EXPECT_FALSE(executor_->full());
  executor_->enqueue(Plan().add(1, 7, {-1 - 1}));  // the second sample of the previous step
  EXPECT_TRUE(executor_->full());
  const StepResult first = executor_->wait();
  EXPECT_THAT(first.entries, ::testing::ElementsAre(1002, 1001));
  EXPECT_EQ(tokens_of(first).back(), alone[0]);
  executor_->enqueue(Plan().add(1, 8, {-1}));
  EXPECT_EQ(tokens_of(executor_->wait()), Tokens{alone[1]});
  EXPECT_EQ(tokens_of(executor_->wait()), Tokens{alone[2]});
  EXPECT_TRUE(executor_->empty());
}

// A draft is checked this way: an entry with several new tokens is sampled after each of them.
TEST_F(ExecutorTest, SamplesAfterEveryTokenOfAnEntryThatAsksForIt) {
  const Tokens made = decode(0, 4);
  ASSERT_EQ(run(Plan().add(1, 0, kPrompt)), Tokens{made[0]});
  const Tokens draft(made.begin(), made.begin() + 3);
  EXPECT_EQ(run(Plan().add(2, 0, {7, 8}).add(1, 7, draft, 3)),
            (Tokens{run(Plan().add(3, 0, {7, 8}))[0], made[1], made[2], made[3]}));
}

TEST_F(ExecutorTest, ScoresTokensThatAreForced) {
  Plan plan;
  plan.add(0, 0, kPrompt, static_cast<std::int32_t>(kPrompt.size()));
  for (std::size_t i = 0; i + 1 < kPrompt.size(); ++i) {
    plan.samples[i].how.forced_token = kPrompt[i + 1];
    plan.samples[i].how.num_logprobs = 1;
  }
  executor_->enqueue(plan);
  const StepResult result = executor_->wait();
  ASSERT_EQ(result.samples.size(), kPrompt.size());
  for (std::size_t i = 0; i + 1 < kPrompt.size(); ++i) {
    EXPECT_EQ(result.samples[i].token, kPrompt[i + 1]);
    EXPECT_LE(result.samples[i].logprob, 0);
  }
}

TEST_F(ExecutorTest, LooksAtTheHistoryAndTheBiasesOfEachSampleAlone) {
  const Tokens plain = run(Plan().add(0, 0, kPrompt));
  Plan plan;
  plan.add(1, 0, kPrompt).add(2, 0, kPrompt).add(3, 0, kPrompt);
  plan.history = {1, 2, plain[0]};
  plan.samples[1].how.history_len = 3;
  plan.samples[1].how.prompt_len = 2;
  plan.samples[1].how.presence_penalty = 1e6F;  // forbids that token
  plan.biases = {{3, 0}, {9, 1e6F}};
  plan.samples[2].how.bias = 1;
  plan.samples[2].how.num_biases = 1;
  const Tokens got = run(plan);
  EXPECT_EQ(got[0], plain[0]);
  EXPECT_NE(got[1], plain[0]);
  EXPECT_EQ(got[2], 9);
}

TEST_F(ExecutorTest, ComputesWithTheAdapterInTheSlotWhileItArrives) {
  const Tokens base = decode(0, 4);
  const float base_logprob = first_logprob(0, {});
  const AdapterSlot a = load("a", 1);
  const Tokens with_a = decode(1, 4, a);
  const float a_logprob = first_logprob(1, a);
  EXPECT_NE(a_logprob, base_logprob);
  ASSERT_TRUE(executor_->tier().finish_loads().ok());
  EXPECT_EQ(decode(2, 4, a), with_a);
  const AdapterSlot b = load("b", 2);
  EXPECT_NE(a.slot, b.slot);
  Plan together;
  together.add(3, 0, kPrompt, 1, b).add(4, 0, kPrompt).add(5, 0, kPrompt, 1, a);
  const Tokens got = run(together);
  EXPECT_EQ(got[1], base[0]);
  EXPECT_EQ(got[2], with_a[0]);
  EXPECT_EQ(got[0], decode(6, 1, b)[0]);
  EXPECT_EQ(first_logprob(7, a), a_logprob);
  EXPECT_NE(first_logprob(8, b), a_logprob);
}

TEST_F(ExecutorTest, TellsWhenToPlanBehindAStepWhoseTimeIsKnown) {
  constexpr std::chrono::milliseconds kStep(100);
  const auto enqueue = [&](const StepPlan& plan) {
    executor_->times().planning({clock_.now(), false, Planning::Work::decode});
    executor_->enqueue(plan);
  };
  const auto wait = [&] {
    clock_.advance(kStep);
    EXPECT_TRUE(executor_->wait().status.ok());
  };
  const auto plan_at = [&] { return executor_->times().plan_at(Planning::Work::decode); };
  for (int i = 0; i < 3; ++i) {
    enqueue(Plan().add(0, 0, kPrompt));
    EXPECT_FALSE(plan_at()) << "of " << i << " steps nobody knows what the next one takes";
    wait();
  }
  enqueue(Plan().add(0, 0, kPrompt));
  ASSERT_TRUE(plan_at());
  EXPECT_LT(*plan_at(), clock_.now() + kStep);
  EXPECT_GT(*plan_at(), clock_.now() + kStep - std::chrono::milliseconds(1));
  enqueue(Plan().add(1, 0, kPrompt));
  EXPECT_FALSE(plan_at()) << "there is no room for a third";
  wait();
  EXPECT_TRUE(plan_at());
  wait();
  EXPECT_FALSE(plan_at());
  std::uint32_t word = 0;  // holds the load until the step is enqueued
  executor_->tier().loads().first().stream().hold(&word, 1);
  enqueue(Plan().add(0, 0, kPrompt, 1, load("late", 3)));
  EXPECT_FALSE(plan_at()) << "it waits for its adapter, nobody knows how long";
  wait();
}

// The host may notice the end of a step late, because it is busy with the next one.
TEST_F(ExecutorTest, CostsAreLearntFromWhatTheDeviceSaysThatStepsTook) {
  HandoffOptions handoff;
  handoff.groups.resize(1);
  handoff.groups[0].spare_worker_slots = 1;
  handoff.start_workers = &WorkerPool::start;  // no workers start
  executor_.reset();
  make_executor(handoff);
  for (int i = 0; i < 3; ++i) {
    executor_->enqueue(Plan().add(0, 0, kPrompt));
    clock_.advance(std::chrono::hours(1));
    EXPECT_TRUE(executor_->wait().status.ok());
  }
  const HandoffLearning learning = executor_->handoff()->learning();
  EXPECT_EQ(learning.observed, 3U) << "an hour is no time for a layer";
}

TEST_F(ExecutorTest, AFailureOfTheDeviceFailsTheStepsBehindIt) {
  const Tokens before = decode(0, 3);
  device_.fail_sample(0);
  executor_->enqueue(Plan().add(1, 0, kPrompt));
  executor_->enqueue(Plan().add(1, 7, {-1}));
  for (int step = 0; step < 2; ++step) {
    const StepResult result = executor_->wait();
    EXPECT_THAT(result.status.message(), ::testing::HasSubstr("sample failed"));
    EXPECT_THAT(result.entries, ::testing::ElementsAre(1001));
    EXPECT_TRUE(result.samples.empty());
  }
  EXPECT_EQ(decode(2, 3), before);
}

}  // namespace
}  // namespace tandem::test
