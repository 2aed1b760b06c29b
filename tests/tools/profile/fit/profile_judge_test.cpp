#include "tools/profile/fit/profile_judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "tests/support/test_seed.h"
#include "tests/tools/profile/sample_tables.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

// A disturbance in a pass: a factor on the time of a case.
using Disturbance = std::function<double(std::mt19937_64&, int pass, std::string_view table)>;

constexpr int kPasses = 9;

Profile judged(std::uint64_t seed, const Disturbance& disturbed, double others = 0) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(1, 0.01);
  std::vector<PassTables> passes;
  Profile profile;
  for (int pass = 0; pass < kPasses; ++pass) {
    profile = measured(known_costs(), [&](std::string_view table, double seconds) {
      return seconds * noise(random) * disturbed(random, pass, table);
    });
    passes.push_back(std::move(profile.tables));
  }
  const auto notes = judge_passes(passes, others, profile);
  EXPECT_TRUE(notes.ok()) << notes.status().message();
  return profile;
}

double truth_of(const FigureSpread& figure) {
  const CostModel costs = known_costs();
  if (figure.name == "offer_s") return std::min(costs.trip_s, CostModel{}.offer_s);
  if (figure.name == kTokensPerCore) return costs.tokens_per_core;
  for (const CostField& field : cost_fields()) {
    if (figure.name == field.key) return costs.*field.member;
  }
  return 0;
}

bool chance(std::mt19937_64& random, double share) {
  return std::uniform_real_distribution<double>(0, 1)(random) < share;
}

double undisturbed(std::mt19937_64&, int, std::string_view) {
  return 1;
}

// Disturbs single cases, a whole pass, and the clock, which slows down by 2 %.
TEST(ProfileJudge, WhatHoldsUpAFewMovesNoFigureFartherThanItsSpreadSays) {
  const std::uint64_t seed = test_seed();
  const std::vector<std::pair<const char*, Disturbance>> kinds = {
      {"nothing", undisturbed},
      {"cases", [](std::mt19937_64& random, int,
                   std::string_view) { return chance(random, 0.05) ? 30.0 : 1.0; }},
      {"a pass", [](std::mt19937_64&, int pass, std::string_view) { return pass == 4 ? 3 : 1; }},
      {"a drift", [](std::mt19937_64&, int pass, std::string_view) { return 1 + 0.0025 * pass; }}};
  for (const auto& [what, disturbed] : kinds) {
    SCOPED_TRACE(what);
    const Profile profile = judged(seed, disturbed);
    EXPECT_EQ(profile.figures.size(), 14u);
    for (const FigureSpread& figure : profile.figures) {
      // The interval of a sample may by chance be too wide or too narrow.
      EXPECT_NEAR(figure.value / truth_of(figure), 1, 0.04 + 2 * figure.spread) << figure.name;
    }
    for (const char* name : {"link_bytes_per_s", "layer_s", "layer_row_s"}) {
      EXPECT_TRUE(profile.figure(name)->certain) << name << " " << profile.figure(name)->spread;
    }
    EXPECT_TRUE(parse_profile(to_json(profile)).ok());
  }
}

// Round trips were like this: 0.3 us or 112 us, depending on where the scheduler put two threads.
TEST(ProfileJudge, TwoModesAreSaidAndNotPlannedWith) {
  const std::uint64_t seed = test_seed();
  const Profile profile = judged(seed, [](std::mt19937_64&, int pass, std::string_view table) {
    return table == "trip" && pass % 2 == 0 ? 100.0 : 1.0;
  });
  const FigureSpread* trip = profile.figure("trip_s");
  EXPECT_FALSE(trip->certain);
  EXPECT_GT(trip->spread, 0.5);
  EXPECT_THAT(trip->why, HasSubstr("9 passes say"));
  // The best observation is the nearest to the built-in figure.
  EXPECT_NEAR(profile.costs.trip_s, known_costs().trip_s, 0.1 * known_costs().trip_s);
  EXPECT_TRUE(profile.figure("layer_s")->certain);
  EXPECT_FALSE(profile.is_certain());
}

TEST(ProfileJudge, TheBuiltInFigureStaysWhereTheIntervalHoldsIt) {
  const Profile profile =
      judged(test_seed(), [](std::mt19937_64&, int pass, std::string_view table) {
        return table == "prefill" ? 0.5 + 0.25 * pass : 1.0;
      });
  EXPECT_FALSE(profile.figure("layer_s")->certain);
  EXPECT_EQ(profile.costs.layer_s, CostModel{}.layer_s);
  EXPECT_THAT(profile.figure("layer_s")->why, HasSubstr("the built-in 127.00 us stays"));
}

// Processes that use half of the CPUs all the time are not visible in the spread of passes.
TEST(ProfileJudge, OthersWhoAreBusyAllTheWhileMakeFiguresUncertain) {
  const std::uint64_t seed = test_seed();
  const Profile quiet = judged(seed, undisturbed);
  const Profile busy = judged(seed, undisturbed, 0.5);
  EXPECT_TRUE(quiet.figure("layer_s")->certain);
  for (const FigureSpread& figure : busy.figures) {
    EXPECT_FALSE(figure.certain) << figure.name;
    EXPECT_GE(figure.spread, 1) << figure.name;
  }
  EXPECT_GE(widest_spread(busy), widest_spread(quiet));
}

}  // namespace
}  // namespace tandem
