#include "scheduler/cluster/policies/policy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/scheduler/cluster/policies/policy_cases.h"

namespace tandem {
namespace {

TEST(Policy, IsMadeByItsNameAndAnUnknownNameListsTheKnown) {
  for (const std::string& name : policy_names()) {
    const auto policy = make_policy(name, {});
    ASSERT_TRUE(policy.ok()) << name;
    EXPECT_EQ((*policy)->name(), name);
  }
  const auto unknown = make_policy("best", {});
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("rank_aware, tandem"), std::string::npos);
}

TEST(Policy, ChoosesNoneWhereNoEngineAccepts) {
  std::vector<EngineView> engines(3, idle_engine());
  for (EngineView& engine : engines) engine.accepts = false;
  for (const std::string& name : policy_names()) {
    EXPECT_FALSE(choose_by(name, a_request(), engines).chosen()) << name;
    EXPECT_FALSE(choose_by(name, a_request(), {}).chosen()) << name;
  }
}

class AnyPolicy : public testing::TestWithParam<std::string> {};

// Properties for any state of the cluster: the chosen engine accepts; without room punica and
// first_fit wait and the others choose; equal calls give equal choices.
TEST_P(AnyPolicy, ChoosesOnlyWhoAcceptsAndRepeatsItself) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    PolicyOptions options;
    options.seed = seed;
    options.slo_decode_s = 40e-3;
    const auto first = make_policy(GetParam(), options);
    const auto second = make_policy(GetParam(), options);
    ASSERT_TRUE(first.ok() && second.ok());
    for (int call = 0; call < 20; ++call) {
      const std::vector<EngineView> engines = random_engines(random, 1 + random() % 40);
      RouteRequest request = a_request(static_cast<std::int32_t>(8U << (random() % 4)),
                                       static_cast<std::int32_t>(random() % 50));
      if (random() % 4 == 0) request = a_request(0, -1);
      request.slo_token_s = 45e-3;
      std::vector<AdapterHold> holds;
      std::vector<PrefixHit> prefixes;
      for (std::int32_t i = 0; i < static_cast<std::int32_t>(engines.size()) + 3; ++i) {
        // Some holds name engines that have left, because a router's index may be ahead of its
        // views.
        if (random() % 4 == 0) {
          holds.push_back({engine_at(i), static_cast<AdapterTier>(random() % 5),
                           static_cast<std::int32_t>(random() % 3)});
        }
        if (random() % 8 == 0) prefixes.push_back({engine_at(i), 16});
      }
      request.holds = holds;
      request.prefixes = prefixes;
      const Decision decision = (*first)->choose(request, engines);
      EXPECT_EQ(decision.engine, (*second)->choose(request, engines).engine);
      const bool any = std::any_of(engines.begin(), engines.end(),
                                   [](const EngineView& engine) { return engine.accepts; });
      const bool room = std::any_of(engines.begin(), engines.end(), [&](const EngineView& engine) {
        return has_room(engine, request);
      });
      const bool waits = GetParam() == "first_fit" || GetParam() == "punica";
      ASSERT_EQ(decision.chosen(), waits ? room : any);
      if (!decision.chosen()) continue;
      ASSERT_LT(decision.engine.index(), engines.size());
      EXPECT_TRUE(engines[decision.engine.index()].accepts);
      EXPECT_TRUE(std::isfinite(decision.cost));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AnyPolicy, testing::ValuesIn(policy_names()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace tandem
