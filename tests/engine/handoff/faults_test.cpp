// Workers never answer, answer late, or write garbage, under load: every request gets the text of
// an engine that holds all adapters, and nothing is left behind.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/handoff_engine.h"
#include "tests/support/sanitized.h"

namespace tandem::test {
namespace {

const int kRequests = sanitized() ? 16 : 48;
const double kLinkGbps =
    sanitized() ? 0.002 : 0.01;  // steps are slow as well, and loads must not end before them
constexpr int kAdapters = 10;
constexpr unsigned kSeed = 20261120;

std::vector<GenerationRequest> mixed_requests(unsigned seed, int count) {
  std::mt19937 random(seed);
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < count; ++i) {
    const int adapter = static_cast<int>(random() % (kAdapters + 1)) - 1;
    GenerationRequest request = handoff_request(adapter, 1 + static_cast<int>(random() % 30),
                                                1 + static_cast<int>(random() % 8));
    if (random() % 4 == 0) request.prompt_logprobs = true;
    if (random() % 4 == 0) request.n = 2;
    if (random() % 3 == 0) {
      request.sampling.temperature = 0.8;
      request.sampling.seed = random();
    }
    if (random() % 4 == 0) request.constraint = {TextConstraint::Kind::regex, "([a-z]{1,9} )+"};
    requests.push_back(std::move(request));
  }
  return requests;
}

struct Answer {
  std::vector<TokenId> tokens;
  std::size_t prompt_logprobs;
  bool operator==(const Answer&) const = default;
};

std::vector<Answer> answers(Engine& engine, const std::vector<GenerationRequest>& requests) {
  std::vector<std::unique_ptr<Generation>> running;
  running.reserve(requests.size());
  for (const GenerationRequest& request : requests) {
    running.push_back(engine.submit(request).value());
  }
  std::vector<Answer> result;
  for (const auto& each : running) {
    for (const Collected& got : collect(*each)) {
      EXPECT_TRUE(got.error.ok()) << got.error.message();
      result.push_back({got.tokens, got.prompt_logprobs.size()});
    }
  }
  return result;
}

void expect_nothing_left(HandoffEngine& served) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (served.engine->stats().pages_kv > 0 || served.engine->stats().running > 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "pages or sequences are left";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (const AdapterInfo& adapter : served.engine->adapters()) {
    EXPECT_EQ(adapter.running, 0);
    EXPECT_EQ(adapter.waiting, 0);
  }
}

// Returns the number of group jobs that the workers of each mailbox have computed.
std::vector<std::uint64_t> jobs_of(const std::vector<const Mailbox*>& mailboxes) {
  std::vector<std::uint64_t> jobs;
  for (const Mailbox* mailbox : mailboxes) {
    std::uint64_t& sum = jobs.emplace_back(0);
    for (std::uint32_t i = 0; i < mailbox->shape().num_worker_slots; ++i) {
      sum += mailbox->worker_slot(static_cast<int>(i)).jobs;
    }
  }
  return jobs;
}

// Room for a third of the adapters, so that loads, which take several steps, are frequent.
void tight(EngineOptions& options) {
  options.max_device_adapters = 4;
  options.prefix_cache = true;
}

std::vector<Answer> wanted(const std::vector<GenerationRequest>& requests) {
  auto oracle = HandoffEngine::make(AdapterMode::cached, kAdapters);
  return answers(*oracle->engine, requests);
}

// Sends more requests, a few at a time, until the condition holds; returns whether it does. Repeats
// because the layers that workers get depend on what has arrived when a step is planned. `round`
// continues from call to call.
bool goes_on_until(HandoffEngine& served, unsigned& round,
                   const std::function<bool(const EngineStats&)>& condition) {
  for (; !condition(served.engine->stats()) && round < 200; ++round) {
    (void)answers(*served.engine, mixed_requests(kSeed + 2 + round, 6));
  }
  return condition(served.engine->stats());
}

class Modes : public ::testing::TestWithParam<AdapterMode> {};

TEST_P(Modes, AnswerAsIfAllAdaptersHadAlwaysBeenThere) {
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  const std::vector<GenerationRequest> requests = mixed_requests(kSeed, kRequests);
  auto served = HandoffEngine::make(GetParam(), kAdapters, kLinkGbps, 0, tight);
  EXPECT_EQ(answers(*served->engine, requests), wanted(requests));
  if (hands_over(GetParam())) {
    unsigned round = 0;
    EXPECT_TRUE(goes_on_until(*served, round,
                              [](const EngineStats& s) { return s.handoff_cpu_layers > 0; }));
  }
  expect_nothing_left(*served);
}

TEST_P(Modes, AnswerSoOnTwoDevicesThatShareTheModel) {
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  const std::vector<GenerationRequest> requests = mixed_requests(kSeed + 2, kRequests / 2);
  auto served =
      HandoffEngine::make(GetParam(), kAdapters, kLinkGbps, 0, tight, handoff_config(), 2);
  EXPECT_EQ(answers(*served->engine, requests), wanted(requests));
  if (hands_over(GetParam())) {
    unsigned round = 0;
    EXPECT_TRUE(goes_on_until(*served, round,
                              [](const EngineStats& s) { return s.handoff_cpu_layers > 0; }));
  }
  expect_nothing_left(*served);
}

// CPU workers take none of their rows, as they have no room for a vocabulary.
TEST_P(Modes, AnswerSoForAdaptersOfTheEmbeddingAndTheHead) {
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  const std::vector<std::vector<std::string_view>> modules = {
      {"lm_head"}, {"embed_tokens", "v_proj"}, {"q_proj", "down_proj", "embed_tokens", "lm_head"}};
  const auto add_to = [&](HandoffEngine& engine) {
    for (std::size_t i = 0; i < modules.size(); ++i) {
      Adapter adapter = make_dummy_adapter(
          handoff_config(), DType::f32, static_cast<std::int32_t>(3 + 4 * i), modules[i], 900 + i);
      const std::string name = handoff_name(kAdapters + static_cast<int>(i));
      ASSERT_TRUE(engine.engine->adapter_store().add(name, std::move(adapter), false, false).ok());
    }
  };
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 24; ++i) {
    requests.push_back(
        handoff_request(i % 5 == 4 ? i % kAdapters : kAdapters + i % 3, 3 + i % 9, 6));
  }
  auto oracle = HandoffEngine::make(AdapterMode::cached, kAdapters);
  add_to(*oracle);
  auto served = HandoffEngine::make(GetParam(), kAdapters, kLinkGbps, 0, tight);
  add_to(*served);
  EXPECT_EQ(answers(*served->engine, requests), answers(*oracle->engine, requests));
  expect_nothing_left(*served);
}

std::string mode_name(const ::testing::TestParamInfo<AdapterMode>& info) {
  static const char* const kNames[] = {"cached", "on_demand", "pipelined", "cpu_assist", "planned"};
  return kNames[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(All, Modes,
                         ::testing::Values(AdapterMode::on_demand, AdapterMode::pipelined,
                                           AdapterMode::cpu_assist, AdapterMode::planned),
                         mode_name);

struct Fault {
  const char* name;
  int silent;
  int stall_ms;
  bool garbage;
  int num_devices = 1;
};

class Faults : public ::testing::TestWithParam<Fault> {};

TEST_P(Faults, CostClientsNothingButTime) {
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  const Fault& fault = GetParam();
  const std::vector<GenerationRequest> requests = mixed_requests(kSeed + 1, kRequests);
  auto served = HandoffEngine::make(
      AdapterMode::planned, kAdapters, kLinkGbps, fault.silent,
      [](EngineOptions& options) {
        tight(options);
        options.handoff.deadline_us = 20'000;
      },
      handoff_config(), fault.num_devices);
  served->faults.stall_ms = fault.stall_ms;
  served->faults.garbage = fault.garbage;
  EXPECT_EQ(answers(*served->engine, requests), wanted(requests));
  expect_nothing_left(*served);
  if (fault.silent == 0) return;
  unsigned round = 0;
  EXPECT_TRUE(goes_on_until(*served, round, [](const EngineStats& stats) {
    return stats.handoff_timed_out > 0 && stats.replays > 0;
  }));
  // Dead workers are replaced, and the new ones compute.
  served->faults.silent = 0;
  EXPECT_TRUE(
      goes_on_until(*served, round, [&](const EngineStats&) { return served->faults.clears > 0; }));
  const std::uint64_t before = served->engine->stats().handoff_cpu_layers;
  EXPECT_TRUE(goes_on_until(
      *served, round, [&](const EngineStats& stats) { return stats.handoff_cpu_layers > before; }));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Faults,
                         ::testing::Values(Fault{"one_never_answers", 1, 0, false},
                                           Fault{"nobody_answers", 2, 0, false},
                                           Fault{"late", 0, 60, false},
                                           Fault{"garbage", 0, 0, true},
                                           Fault{"late_and_garbage", 0, 40, true},
                                           Fault{"one_of_two_devices", 1, 0, false, 2},
                                           Fault{"late_for_two_devices", 0, 40, true, 2}),
                         [](const auto& param) { return std::string(param.param.name); });

// There are workers and a share of the host tier on each of two nodes.
class TwoNodes : public ::testing::TestWithParam<AdapterMode> {
 protected:
  TwoNodes() {
    served_ =
        HandoffEngine::make(GetParam(), kAdapters, kLinkGbps, 0, [this](EngineOptions& options) {
          tight(options);
          on_two_nodes(options);
          HandoffOptions& handoff = options.handoff;
          handoff.start_workers = [this,
                                   start = handoff.start_workers](const WorkerPoolOptions& pool) {
            for (const WorkerGroupOptions& group : pool.groups) {
              mailboxes_.push_back(group.mailbox);
              arenas_.push_back(group.arena);
            }
            return start(pool);
          };
        });
  }
  std::vector<std::uint64_t> jobs() const { return jobs_of(mailboxes_); }
  // Uses all adapters, repeatedly: which of them are cold, and for how long, depends on the timing.
  void answer_until(const std::function<bool()>& condition) {
    for (unsigned round = 0; round == 0 || (!condition() && round < 50); ++round) {
      const std::vector<GenerationRequest> requests = mixed_requests(kSeed + round, kRequests);
      ASSERT_EQ(answers(*served_->engine, requests), wanted(requests));
    }
  }

  std::vector<const Mailbox*> mailboxes_;
  std::vector<std::string> arenas_;
  std::unique_ptr<HandoffEngine> served_;
};

TEST_P(TwoNodes, BothComputeWhatLiesOnThem) {
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  ASSERT_EQ(arenas_.size(), 2U);
  EXPECT_NE(arenas_[0], arenas_[1]);
  answer_until([&] { return jobs()[0] > 0 && jobs()[1] > 0; });
  EXPECT_GT(jobs()[0], 0U);
  EXPECT_GT(jobs()[1], 0U);
  EXPECT_EQ(served_->engine->stats().handoff_timed_out, 0U);
  expect_nothing_left(*served_);
}

TEST_P(TwoNodes, WaitForWhatLiesOnTheOneWithoutWorkers) {
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  served_->faults.dead_groups = 1;
  answer_until([&] { return jobs()[1] > 0; });
  EXPECT_EQ(jobs()[0], 0U);
  EXPECT_GT(jobs()[1], 0U);
  expect_nothing_left(*served_);
}

INSTANTIATE_TEST_SUITE_P(All, TwoNodes,
                         ::testing::Values(AdapterMode::cpu_assist, AdapterMode::planned),
                         mode_name);

TEST(NoWorkers, WorksAsPipelined) {
  const std::vector<GenerationRequest> requests = mixed_requests(kSeed, 16);
  auto served = HandoffEngine::make(AdapterMode::planned, kAdapters, 0.05);
  served->faults.dead_groups = 1;
  EXPECT_EQ(answers(*served->engine, requests), wanted(requests));
  EXPECT_EQ(served->engine->stats().handoff_rows, 0U);
  auto without =
      HandoffEngine::make(AdapterMode::planned, kAdapters, 0.05, 0, [](EngineOptions& options) {
        options.handoff.start_workers = [](const WorkerPoolOptions&) {
          return Result<std::unique_ptr<WorkerPool>>(
              Status(StatusCode::unavailable, "there is no program"));
        };
      });
  EXPECT_EQ(answers(*without->engine, requests), wanted(requests));
}

}  // namespace
}  // namespace tandem::test
