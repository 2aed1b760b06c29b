#include "scheduler/cluster/members/consolidator.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem {
namespace {

using std::chrono::seconds;

// Three engines with ten places each; all their requests come from this router.
class ConsolidatorTest : public ::testing::Test {
 protected:
  ConsolidatorTest() : cluster_(make_policy("most_idle", {}).value()) {
    options_.on = true;
    for (int i = 0; i < 3; ++i) {
      cluster_.add({"h", i + 1});
      say(i, 0);
    }
  }
  // Reports `running` requests at the engine, and the adapters that it has.
  void say(int engine, int running, std::vector<AdapterReport> adapters = {}, bool accepts = true) {
    EngineReport report;
    report.id = "e" + std::to_string(engine);
    report.model = base_;
    report.max_model_len = context_;
    report.view.accepts = accepts;
    report.view.max_requests = 10;
    report.view.kv_tokens = report.view.kv_free_tokens = 10'000;
    report.view.running.requests = running;
    report.view.adapter_free_bytes = 1 << 20;
    report.view.costs.step_s = 0.01;
    report.view.cold.link_bytes_per_s = 1000;
    report.adapters = std::move(adapters);
    const bool first = cluster_.engines()[static_cast<std::size_t>(engine)].report.id.empty();
    EXPECT_TRUE(cluster_.report(EngineIndex(engine), std::move(report), first, now_));
    running_[engine] = running;
  }
  Consolidation look(std::int64_t waiting = 0) {
    return consolidator_.look(
        cluster_, waiting,
        [&](EngineIndex engine) {
          return std::vector<MovableStream>(static_cast<std::size_t>(running_[engine.value()]),
                                            stream_);
        },
        now_);
  }
  // Returns the engine that rests after the load has been the same for `after`; -1: none.
  int rests_at_last() {
    EXPECT_FALSE(look().rests.valid());
    now_ += options_.after;
    return look().rests.value();
  }

  ConsolidationOptions options_;
  Consolidator consolidator_{options_};
  Cluster cluster_;
  TimePoint now_ = TimePoint() + std::chrono::hours(1);
  MovableStream stream_{{.model = "base", .prompt_tokens = 10, .expected_tokens = 10}, 1, true};
  int running_[3] = {};
  std::string base_ = "base";  // reported by say()
  std::int64_t context_ = 4096;
};

TEST_F(ConsolidatorTest, FreesTheEngineThatHasTheLeastAndFillsTheOneThatHasMost) {
  say(0, 3);
  say(1, 2);
  say(2, 1);
  EXPECT_FALSE(look().rests.valid());
  now_ += options_.after - seconds(1);
  EXPECT_FALSE(look().rests.valid()) << "too soon";
  now_ += seconds(1);
  const Consolidation found = look();
  EXPECT_EQ(found.rests, EngineIndex(2));
  ASSERT_EQ(found.moves.size(), 1U);
  EXPECT_EQ(found.moves[0].to, EngineIndex(0));
  EXPECT_FALSE(found.moves[0].cost.cold);
  ASSERT_NE(consolidator_.in_use(3), nullptr);
  EXPECT_EQ(*consolidator_.in_use(4), (std::vector<bool>{true, true, false, true}));
  EXPECT_TRUE(consolidator_.rests(EngineIndex(2)));
}

TEST_F(ConsolidatorTest, LeavesTheLastEngineAndRoomToGrow) {
  EXPECT_EQ(rests_at_last(), 0);
  EXPECT_EQ(rests_at_last(), 1);
  EXPECT_EQ(rests_at_last(), -1);
  EXPECT_EQ(consolidator_.num_resting(), 2);
  consolidator_.wake(EngineIndex(0));
  EXPECT_EQ(consolidator_.num_resting(), 1);
  // The streams of both would be on one engine, which would exceed the bound for a light load.
  say(0, 2);
  say(2, 3);
  EXPECT_EQ(rests_at_last(), -1);
  say(2, 2);
  EXPECT_EQ(rests_at_last(), 0);
}

TEST_F(ConsolidatorTest, WakesAnEngineAtOnceWhenTheOthersHaveNoRoom) {
  say(0, 1);
  say(1, 3);
  EXPECT_EQ(rests_at_last(), 2);
  EXPECT_FALSE(look(1).rests.valid());
  EXPECT_EQ(consolidator_.num_resting(), 0) << "requests wait";
  EXPECT_EQ(rests_at_last(), 2);
  say(0, 6);
  say(1, 6);
  EXPECT_FALSE(look().rests.valid());
  EXPECT_EQ(consolidator_.in_use(3), nullptr) << "none of them is lightly loaded";
}

// Load that changes faster than `after` moves nothing.
TEST_F(ConsolidatorTest, MovesNothingToAndFro) {
  for (int i = 0; i < 20; ++i) {
    say(0, i % 2 == 0 ? 1 : 6);
    say(1, 3);
    say(2, 3);
    now_ += options_.after / 2;
    EXPECT_FALSE(look().rests.valid()) << i;
  }
  EXPECT_EQ(consolidator_.num_resting(), 0);
}

TEST_F(ConsolidatorTest, LeavesAnEngineWhoseStreamsWereMovedOfLate) {
  for (int i = 0; i < 3; ++i) say(i, 1);
  stream_.may_move = false;
  EXPECT_EQ(rests_at_last(), -1);
  stream_.may_move = true;
  EXPECT_EQ(rests_at_last(), 0);
}

TEST_F(ConsolidatorTest, CountsAColdStartAndAvoidsIt) {
  stream_.wanted.model = "law";
  const AdapterReport law{.name = "law", .rank = 8, .bytes = 500};
  const auto at = [&](AdapterTier tier) {
    AdapterReport one = law;
    one.tier = tier;
    return std::vector<AdapterReport>{one};
  };
  // The engine with more to do would need a cold start of half a second.
  say(0, 2, at(AdapterTier::host));
  cluster_.set_aside(EngineIndex(2), "late");
  say(1, 1, at(AdapterTier::resident));
  options_.max_pause_s = 0.3;
  Consolidator strict(options_);
  const EngineSearch search(cluster_, stream_.wanted);
  EXPECT_FALSE(search.move_cost(EngineIndex(2), cluster_.view(EngineIndex(2)), now_));
  const auto cost = search.move_cost(EngineIndex(0), cluster_.view(EngineIndex(0)), now_);
  ASSERT_TRUE(cost);
  EXPECT_TRUE(cost->cold);
  EXPECT_GT(cost->pause_s, 0.5);
  EXPECT_EQ(cost->load_bytes, 500);
  const auto streams_of = [&](EngineIndex engine) {
    return std::vector<MovableStream>(static_cast<std::size_t>(running_[engine.value()]), stream_);
  };
  EXPECT_FALSE(strict.look(cluster_, 0, streams_of, now_).rests.valid());
  now_ += options_.after;
  const Consolidation found = strict.look(cluster_, 0, streams_of, now_);
  EXPECT_EQ(found.rests, EngineIndex(0)) << "its streams are warm at the other";
  ASSERT_EQ(found.moves.size(), 2U);
  EXPECT_EQ(found.moves[0].to, EngineIndex(1));
  EXPECT_FALSE(found.moves[0].cost.cold);
  // With a longer allowed pause the engine with less to do is freed, despite the cold start.
  EXPECT_EQ(rests_at_last(), 1);
}

// The client may have named no model.
TEST_F(ConsolidatorTest, MovesNothingToAnotherBaseOrAShorterContext) {
  stream_.wanted.model.clear();
  say(2, 0, {}, false);
  say(0, 1);
  base_ = "other";
  say(1, 2);
  EXPECT_EQ(rests_at_last(), -1);
  base_ = "base";
  context_ = 2048;
  say(1, 2);
  EXPECT_EQ(rests_at_last(), 1) << "what fits the shorter one fits the longer";
}

TEST_F(ConsolidatorTest, KnowsNoEngineThatDrainsOrIsGone) {
  EXPECT_EQ(rests_at_last(), 0);
  say(0, 0, {}, /*accepts=*/false);
  EXPECT_EQ(rests_at_last(), 1);
  EXPECT_EQ(consolidator_.num_resting(), 1) << "who drains does not rest";
  say(2, 0, {}, /*accepts=*/false);
  EXPECT_FALSE(look().rests.valid());
  EXPECT_EQ(consolidator_.num_resting(), 0) << "nobody else is left";
}

}  // namespace
}  // namespace tandem
