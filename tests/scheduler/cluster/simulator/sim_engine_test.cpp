#include "scheduler/cluster/simulator/sim_engine.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem {
namespace {

// A single engine with round figures: a step takes 10 ms, a prompt token 1 ms, an adapter (100
// bytes of rank 1) 20 ms on the link and 50 ms from disk.
class EngineAlone {
 public:
  explicit EngineAlone(SimColdStart cold_start, bool mixed_steps = true)
      : engine_(
            EngineIndex(0), options(cold_start, mixed_steps), index,
            [this](const EngineEvent& event) { events_.push_back(event); },
            [this](const ServedRequest& one) { served.push_back(one); }) {}

  void submit(double at_s, std::int32_t adapter, std::int32_t prompt, std::int32_t answer,
              std::int32_t prefix_tokens = 0) {
    run_until(at_s);
    now_s_ = at_s;
    engine_.submit({.arrival_s = at_s,
                    .adapter = ClusterAdapterId(adapter),
                    .rank = 1,
                    .prompt_tokens = prompt,
                    .answer_tokens = answer,
                    .prefix_tokens = prefix_tokens,
                    .prefix = prefix_tokens > 0 ? adapter : -1},
                   at_s);
  }
  void run_until(double end_s) {
    while (!events_.empty()) {
      const auto next = std::min_element(
          events_.begin(), events_.end(),
          [](const EngineEvent& a, const EngineEvent& b) { return a.at_s < b.at_s; });
      if (next->at_s > end_s) return;
      const EngineEvent event = *next;
      events_.erase(next);
      now_s_ = event.at_s;
      engine_.handle(event, now_s_);
    }
  }
  void finish() { run_until(1e9); }
  EngineView view() {
    engine_.refresh_view(view_, now_s_);
    return view_;
  }
  AdapterTier tier(std::int32_t adapter) const {
    const auto holds = index.holds(ClusterAdapterId(adapter));
    return holds.empty() ? AdapterTier::absent : holds.front().tier;
  }
  std::int64_t loads() const { return engine_.loads(); }

  AdapterIndex index;
  std::vector<ServedRequest> served;

 private:
  static SimEngineOptions options(SimColdStart cold_start, bool mixed_steps) {
    SimEngineOptions options;
    options.cold_start = cold_start;
    options.mixed_steps = mixed_steps;
    options.expected_answer = 4;
    SimMachine& machine = options.machine;
    machine.costs = {.step_s = 10e-3, .prefill_token_s = 1e-3};
    machine.cold.link_bytes_per_s = 100 / 20e-3;
    machine.cold.fetch_bytes_per_s = 100 / 50e-3;
    machine.cold.fetch_s = 0;
    machine.cold.cpu_step_s = 5e-3;
    machine.cold.cpu_rank_token_s = 0;
    machine.max_requests = 4;
    machine.kv_tokens = 100;
    machine.adapter_bytes = 250;  // two adapters
    machine.host_bytes = 450;     // four adapters
    machine.bytes_per_rank = 100;
    return options;
  }

  std::vector<EngineEvent> events_;
  double now_s_ = 0;
  EngineView view_;
  SimEngine engine_;
};

TEST(SimEngine, ServesARequestInItsSteps) {
  EngineAlone engine(SimColdStart::cached);
  engine.submit(1, 1, 5, 3);
  engine.finish();
  ASSERT_EQ(engine.served.size(), 1U);
  EXPECT_NEAR(engine.served[0].first_token_s, 1 + 10e-3 + 5e-3, 1e-9);
  EXPECT_NEAR(engine.served[0].end_s, 1.015 + 2 * 10e-3, 1e-9);
  EXPECT_FALSE(engine.served[0].cold);
  EXPECT_EQ(engine.view().requests(), 0);
  EXPECT_EQ(engine.view().kv_free_tokens, 100);
}

TEST(SimEngine, ComputesWhatPromptsShareOnceWhileItHasRoomForIt) {
  EngineAlone engine(SimColdStart::cached);
  engine.submit(0, 1, 50, 1, 40);  // 50 tokens take 60 ms
  engine.submit(1, 1, 50, 1, 40);  // 10 tokens take 20 ms
  engine.submit(2, 2, 80, 1);      // needs the prefix's room
  engine.submit(3, 1, 50, 1, 40);  // 60 ms again
  engine.submit(4, 1, 40, 1, 40);  // only the shared part; its last token is computed
  engine.finish();
  ASSERT_EQ(engine.served.size(), 5U);
  EXPECT_NEAR(engine.served[0].first_token_s, 0.060, 1e-9);
  EXPECT_NEAR(engine.served[1].first_token_s, 1.020, 1e-9);
  EXPECT_NEAR(engine.served[3].first_token_s, 3.060, 1e-9);
  EXPECT_NEAR(engine.served[4].first_token_s, 4.011, 1e-9);
  EXPECT_EQ(engine.view().kv_free_tokens, 100);
}

TEST(SimEngine, BatchesWhatComesDuringAStep) {
  EngineAlone engine(SimColdStart::cached);
  engine.submit(0, 1, 5, 3);      // in the first step, until 15 ms
  engine.submit(0.001, 2, 2, 1);  // in the second step, with a row of the first, until 27 ms
  engine.submit(0.002, 3, 3, 2);  // also in the second step, which both prompts extend to 30 ms
  engine.finish();
  ASSERT_EQ(engine.served.size(), 3U);
  EXPECT_NEAR(engine.served[0].first_token_s, 0.030, 1e-9);
  EXPECT_NEAR(engine.served[0].end_s, 0.030, 1e-9);
  EXPECT_NEAR(engine.served[1].end_s, 0.040, 1e-9);
  EXPECT_NEAR(engine.served[2].end_s, 0.040, 1e-9);
}

TEST(SimEngine, StopsDecodingForPromptsInStepsOfTheirOwn) {
  EngineAlone engine(SimColdStart::cached, false);
  engine.submit(0, 1, 5, 2);      // its prompt takes until 15 ms
  engine.submit(0.001, 2, 5, 1);  // prompt until 30 ms; the first request's row comes after it
  engine.finish();
  ASSERT_EQ(engine.served.size(), 2U);
  EXPECT_NEAR(engine.served[0].end_s, 0.030, 1e-9);
  EXPECT_NEAR(engine.served[1].end_s, 0.040, 1e-9);
}

TEST(SimEngine, WaitsForAPlaceAndForKv) {
  EngineAlone engine(SimColdStart::cached);
  for (std::int32_t i = 0; i < 5; ++i) engine.submit(0, i, 1, 10);
  engine.run_until(0.05);
  EXPECT_EQ(engine.view().running.requests, 4);
  EXPECT_EQ(engine.view().waiting.requests, 1);
  engine.finish();
  EXPECT_EQ(engine.served.size(), 5U);
  EngineAlone full(SimColdStart::cached);
  full.submit(0, 1, 40, 20);
  full.submit(0, 2, 30, 20);  // 60 + 50 tokens are more than 100
  full.run_until(0.1);
  EXPECT_EQ(full.view().running.requests, 1);
  full.finish();
  EXPECT_EQ(full.served.size(), 2U);
  // A request that exceeds all KV is served alone rather than never.
  full.submit(10, 1, 90, 90);
  full.finish();
  EXPECT_EQ(full.served.size(), 3U);
}

TEST(SimEngine, BeginsAColdRequestByItsMode) {
  // The adapter is fetched until 50 ms. on_demand: the step waits 20 ms for the load. cpu_assist:
  // workers add 5 ms. async: it begins after the load. In each case a step of 10 ms and 5 ms for
  // the prompt follow.
  for (const auto& [mode, first_token_s] :
       {std::pair(SimColdStart::on_demand, 0.085), std::pair(SimColdStart::cpu_assist, 0.070),
        std::pair(SimColdStart::async, 0.085)}) {
    EngineAlone engine(mode);
    engine.submit(0, 1, 5, 1);
    engine.finish();
    ASSERT_EQ(engine.served.size(), 1U);
    EXPECT_NEAR(engine.served[0].first_token_s, first_token_s, 1e-9) << static_cast<int>(mode);
    EXPECT_TRUE(engine.served[0].cold);
    EXPECT_EQ(engine.tier(1), AdapterTier::resident);
    // The adapter is resident now.
    engine.submit(1, 1, 5, 1);
    engine.finish();
    EXPECT_NEAR(engine.served[1].first_token_s, 1.015, 1e-9);
    EXPECT_FALSE(engine.served[1].cold);
    EXPECT_EQ(engine.loads(), 1);
  }
}

TEST(SimEngine, LetsOthersRunWhileAnAdapterIsFetched) {
  EngineAlone engine(SimColdStart::cpu_assist);
  engine.submit(0, 1, 1, 1);
  engine.finish();
  engine.submit(1, 2, 1, 1);      // absent: fetched from disk until 1.05
  engine.submit(1.001, 1, 1, 2);  // resident: begins at once
  engine.finish();
  ASSERT_EQ(engine.served.size(), 3U);
  EXPECT_EQ(engine.served[1].request.adapter, ClusterAdapterId(1));
  EXPECT_NEAR(engine.served[1].end_s, 1.001 + 0.011 + 0.010, 1e-9);
  EXPECT_GT(engine.served[2].first_token_s, 1.05);
}

TEST(SimEngine, KeepsTheLeastRecentlyUsedAdapterInTheHostTierAlone) {
  EngineAlone engine(SimColdStart::cpu_assist);
  for (std::int32_t adapter = 1; adapter <= 3; ++adapter) {
    engine.submit(adapter, adapter, 1, 1);
    engine.finish();
  }
  EXPECT_EQ(engine.tier(1), AdapterTier::host);
  EXPECT_EQ(engine.tier(2), AdapterTier::resident);
  EXPECT_EQ(engine.tier(3), AdapterTier::resident);
  engine.submit(4, 4, 1, 1);
  engine.submit(5, 5, 1, 1);
  engine.finish();
  EXPECT_EQ(engine.tier(1), AdapterTier::absent);
}

TEST(SimEngine, TellsItsViewWhatASchedulerWantsToKnow) {
  EngineAlone engine(SimColdStart::cpu_assist);
  engine.submit(0, 1, 5, 20);
  engine.finish();
  engine.submit(1, 1, 5, 20);
  engine.submit(1.001, 2, 7, 20);
  const EngineView view = engine.view();
  EXPECT_EQ(view.running.requests, 1);
  EXPECT_EQ(view.running.rank_sum, 1);
  EXPECT_EQ(view.waiting.requests, 1);
  EXPECT_EQ(view.waiting.tokens, 7);
  EXPECT_EQ(view.kv_free_tokens, 100 - (5 + 4) - (7 + 4));
  EXPECT_NEAR(static_cast<double>(view.fetch_queue_bytes), 100, 3);
  EXPECT_NEAR(view.step_ends_s, 1.015, 1e-9);
}

}  // namespace
}  // namespace tandem
