// A stream continues with the weights that it began with, or not at all.
#include "scheduler/cluster/members/engine_search.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem {
namespace {

class ClusterWeights : public ::testing::Test {
 protected:
  ClusterWeights() : cluster_(make_policy("most_idle", {}).value()) {
    for (int i = 0; i < 2; ++i) cluster_.add({"h", i + 1});
  }
  // `digest`: that of its adapter x; empty: it has none.
  void report(int engine, const std::string& base, const std::string& digest,
              bool draining = false) {
    EngineReport report;
    report.id = "e" + std::to_string(engine);
    report.model = "base";
    report.base = base;
    report.draining = draining;
    report.view.accepts = !draining;
    report.view.max_requests = 4;
    report.view.kv_tokens = report.view.kv_free_tokens = 1000;
    if (!digest.empty()) report.adapters = {{.name = "x", .digest = digest, .rank = 8, .bytes = 9}};
    ASSERT_TRUE(cluster_.report(EngineIndex(engine), std::move(report), true, now_));
  }
  static Wanted wanted(const std::string& model, WeightsIdentity weights, int avoid = -1) {
    Wanted one{.model = model, .prompt_tokens = 10, .expected_tokens = 10};
    one.weights = std::move(weights);
    one.avoid = EngineIndex(avoid);
    return one;
  }
  // To engine 1, which `as` describes.
  std::optional<MoveCost> move_cost(const Wanted& stream, const EngineView& as) const {
    return EngineSearch(cluster_, stream).move_cost(EngineIndex(1), as, now_);
  }
  Choice choose(const std::string& model, const WeightsIdentity& weights, int avoid = -1) {
    return cluster_.choose(wanted(model, weights, avoid), now_);
  }

  Cluster cluster_;
  TimePoint now_ = TimePoint() + std::chrono::hours(1);
};

TEST_F(ClusterWeights, AreHadByTheEngineWithThatContentOfTheName) {
  report(0, "b1", "d1");
  report(1, "b1", "d2");
  EXPECT_EQ(choose("x", {"b1", "d1"}).engine, EngineIndex(0));
  EXPECT_EQ(choose("x", {"b1", "d2"}).engine, EngineIndex(1));
  EXPECT_EQ(choose("x", {"b1", "d1"}, 0).engine, EngineIndex(0)) << "there is no other with it";
  EXPECT_EQ(choose("x", {"b1", "d3"}).kind, Choice::Kind::changed);
  EXPECT_EQ(choose("base", {"b2", ""}).kind, Choice::Kind::changed);
  EXPECT_EQ(choose("base", {"b1", ""}).kind, Choice::Kind::engine);
  const EngineView& other = cluster_.view(EngineIndex(1));
  EXPECT_FALSE(move_cost(wanted("x", {"b1", "d1"}), other));
  EXPECT_TRUE(move_cost(wanted("x", {"b1", "d2"}), other));
}

TEST_F(ClusterWeights, MayComeBackWithAnEngineThatWasSetAside) {
  report(0, "b1", "d1");
  report(1, "b1", "d2");
  cluster_.set_aside(EngineIndex(0), "it is silent");
  EXPECT_EQ(choose("x", {"b1", "d1"}).kind, Choice::Kind::nobody);
  EXPECT_TRUE(EngineSearch(cluster_, wanted("x", {"b1", "d1"})).has_others_only());
  report(0, "b1", "d2");  // restarted with the other content
  EXPECT_EQ(choose("x", {"b1", "d1"}).kind, Choice::Kind::changed);
}

TEST_F(ClusterWeights, AreGoneWhenTheLastEngineWithThemDrains) {
  report(0, "b1", "d1");
  report(1, "b1", "d2");
  report(0, "b1", "d1", true);
  EXPECT_EQ(choose("x", {"b1", "d1"}).kind, Choice::Kind::changed);
  cluster_.remove(EngineIndex(0));
  cluster_.remove(EngineIndex(1));
  EXPECT_EQ(choose("x", {"b1", "d1"}).kind, Choice::Kind::changed);
}

TEST_F(ClusterWeights, OfAnOfferedAdapterAreTheRegistrys) {
  report(0, "b1", "");
  report(1, "b1", "d2");
  cluster_.set_offered({{"x", 8, 9, "d1"}});
  EXPECT_EQ(choose("x", {"b1", "d1"}).engine, EngineIndex(0)) << "it loads it";
  cluster_.set_offered({{"x", 8, 9, "d3"}});
  EXPECT_EQ(choose("x", {"b1", "d1"}).kind, Choice::Kind::changed);
}

TEST_F(ClusterWeights, ThatWereNeverToldAreNotAskedFor) {
  report(0, "", "");
  report(1, "b1", "");
  EXPECT_EQ(choose("base", {"b1", ""}, 1).engine, EngineIndex(1)) << "the other does not tell";
  Wanted anything{.model = "base", .prompt_tokens = 10, .expected_tokens = 10};
  anything.avoid = EngineIndex(1);
  EXPECT_EQ(cluster_.choose(anything, now_).engine, EngineIndex(0));
}

TEST(WeightsIdentity, OfABaseThatWasReadFurtherIsTheSameAsFarAsBothWereRead) {
  EXPECT_TRUE(is_same_base("ab", "ab"));
  EXPECT_TRUE(is_same_base("ab", "ab-12"));
  EXPECT_FALSE(is_same_base("ab-13", "ab-12"));
  EXPECT_FALSE(is_same_base("ab", "ac-12"));
  EXPECT_FALSE(is_same_base("", "ab"));
  EXPECT_TRUE(is_same_base("", ""));
}

}  // namespace
}  // namespace tandem
