#include "tools/profile/predict/first_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tools/profile/predict/first_tokens_view.h"
#include "tools/profile/profile_report.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using testing::Not;

Profile some_profile(std::int32_t workers, double link_gbps) {
  Profile profile;
  profile.model = {"llama-2-7b", 4096, 32, 32, 32, 128, 11008, 32000, DType::bf16};
  profile.machine = {"Some CPU", 16, "NVIDIA H200"};
  profile.date = "2026-11-20T18:50:04Z";
  profile.commit = "abc";
  profile.workers = workers;
  profile.costs.link_bytes_per_s = link_gbps * 1e9;
  return profile;
}

CoreCurve made_up_curve() {
  CoreCurve curve;
  curve.question.tokens = 64;
  curve.question.rank = 64;
  curve.cores = {0, 1, 2, 3, 4};
  curve.seconds = {20.1e-3, 15e-3, 8.3e-3, 8.2e-3, 8.1e-3};
  curve.knee = find_knee(curve.seconds);
  return curve;
}

TEST(FirstTokens, AreThoseThatThePlannerPredicts) {
  const Profile profile = some_profile(12, 10);
  PlanQuestion question;
  question.cores = 6;
  const PlanAnswer planned = answer(profile, question);
  const HandoffPlan same = plan_handoff(planned.costs, planned.request);
  EXPECT_EQ(first_token_s(profile, question), same.layer_ends.back());
  EXPECT_EQ(planned.request.workers, 6);
}

// A step of 64 rows is a fifth slower than the linear costs say, as can happen with few rows.
TEST(FirstTokens, GoByTheStepsThatWereMeasuredAndWhatRequestsTakeBeyondThem) {
  Profile profile = some_profile(12, 1000);  // so fast that nothing waits for the link
  profile.tables = {{"prefill", {"tokens", "seconds"}, {{32, 4e-3}, {64, 5e-3}, {128, 6e-3}}}};
  const auto seconds = [&](std::int32_t tokens) {
    PlanQuestion question;
    question.tokens = tokens;
    return first_token_s(profile, question);
  };
  EXPECT_NEAR(seconds(64), 5e-3, 0.2e-3);
  EXPECT_NEAR(seconds(96), 5.5e-3, 0.2e-3);
  EXPECT_NEAR(seconds(8), 4e-3, 0.2e-3);
  EXPECT_GT(seconds(1024), 4 * seconds(128)) << "as the costs grow";
  const double before = seconds(64);
  ProfileTable table = first_token_table();
  add_first_token({12, 64, 64, 1, 1, 5.3e-3}, table);
  add_first_token({12, 64, 128, 1, 1, 6.3e-3}, table);
  profile.tables.push_back(table);
  EXPECT_NEAR(seconds(64) - before, 0.3e-3, 1e-9);
}

TEST(FirstTokens, HaveAKneeWhereMoreCoresStopPaying) {
  EXPECT_EQ(find_knee({100, 50, 20.5, 20.1, 20}), 2U);
  EXPECT_EQ(find_knee({100, 50, 30, 25, 20}), 4U);
  EXPECT_EQ(find_knee({20.1, 20, 20, 20}), 0U);
  EXPECT_EQ(find_knee({30, 20, 40, 40}), 1U) << "more of them may be worse";
  EXPECT_EQ(find_knee({20}), 0U);
  EXPECT_EQ(find_knee({}), 0U);
}

TEST(FirstTokens, OfASlowLinkComeSoonerWithCoresAndOfAFastOneHardly) {
  PlanQuestion question;
  question.tokens = 8;
  const CoreCurve slow = core_curve(some_profile(12, 5), question);
  ASSERT_EQ(slow.cores.size(), 13U);
  EXPECT_LT(slow.seconds.back(), 0.5 * slow.seconds.front());
  EXPECT_GT(slow.knee, 0U);
  const double enough = *std::ranges::min_element(slow.seconds) * (1 + kKneeShare);
  EXPECT_LE(slow.seconds[slow.knee], enough);
  EXPECT_GT(slow.seconds[slow.knee - 1], enough);
  EXPECT_EQ(core_curve(some_profile(12, 1000), question).knee, 0U);
}

TEST(FirstTokens, AreAskedOfFewNumbersOfManyCores) {
  const CoreCurve curve = core_curve(some_profile(4096, 10), {});
  EXPECT_LT(curve.cores.size(), 500U);
  EXPECT_EQ(curve.cores.front(), 0);
  EXPECT_EQ(curve.cores.back(), 4096);
  EXPECT_EQ(curve.seconds_of(2048),
            curve.seconds[static_cast<std::size_t>(std::ranges::find(curve.cores, 2048) -
                                                   curve.cores.begin())]);
  EXPECT_TRUE(std::ranges::is_sorted(curve.cores));
}

TEST(BudgetWords, SayWhatAllCoresHalfOfThemAndNoneBuy) {
  EXPECT_EQ(budget_words(made_up_curve()),
            "4 cores: a 64-token prompt of a cold rank-64 adapter starts in 8.1 ms; 2 of them: 8.3 "
            "ms; none: 20.1 ms. More than 2 cores shorten it by less than 5 %.");
}

TEST(BudgetWords, SayWhenNoCorePaysAndWhenAllDo) {
  CoreCurve curve = made_up_curve();
  curve.question.cold = 8;
  curve.seconds = {8, 8, 8, 8, 8};
  curve.knee = 0;
  EXPECT_EQ(budget_words(curve),
            "4 cores: 8 64-token prompts of 8 cold rank-64 adapters at once start in 8000 ms; 2 of "
            "them: 8000 ms; none: 8000 ms. Cores shorten that by less than 5 %: waiting for the "
            "link is as good.");
  curve.knee = 4;
  EXPECT_THAT(budget_words(curve), HasSubstr("All 4 pay."));
}

TEST(FirstTokens, OfAStrangersTableAreReadWhereTheyMakeSense) {
  Profile profile = some_profile(12, 10);
  ProfileTable table = first_token_table();
  add_first_token({12, 64, 32, 9e-3, 10e-3, 8e-3}, table);
  table.rows.push_back({12, 64, 1e300, 9e-3, 10e-3, 8e-3});
  table.rows.push_back({-1, 64, 8, 9e-3, 10e-3, 8e-3});
  table.rows.push_back({12, 64, 8, 9e-3, 0, 8e-3});
  table.rows.push_back({12, 64, std::numeric_limits<double>::quiet_NaN(), 9e-3, 1, 1});
  profile.tables = {table};
  const std::vector<FirstToken> tokens = measured_first_tokens(profile);
  ASSERT_EQ(tokens.size(), 1U);
  EXPECT_EQ(tokens[0].rows, 32);
  EXPECT_NEAR(tokens[0].error(), -0.1, 1e-12);
  profile.tables = {{kFirstTokenTable, {"rows"}, {{8}}}};
  EXPECT_TRUE(measured_first_tokens(profile).empty());
}

TEST(FirstTokensView, PrintsWordsCurvesAndMeasuredBesidePredicted) {
  Profile profile = some_profile(12, 10);
  ProfileTable table = first_token_table();
  add_first_token({12, 64, 32, 9e-3, 10e-3, 8e-3}, table);
  profile.tables = {table};
  const std::string text = profile_text(profile);
  EXPECT_THAT(text, HasSubstr("12 cores: a 64-token prompt of a cold rank-64 adapter starts in"));
  EXPECT_THAT(text, HasSubstr("; 6 of them: "));
  EXPECT_THAT(text, HasSubstr("8 cold adapters of rank 64 at once; fewest: that"));
  EXPECT_THAT(text, HasSubstr("one cold adapter of rank 16"));
  EXPECT_THAT(text,
              HasSubstr("    12    64      32    10.00 ms     9.00 ms  -10.0 %     8.00 ms\n"));
}

TEST(FirstTokensView, DrawsACurveForEachLengthTheKneesAndWhatWasMeasured) {
  Profile profile = some_profile(12, 10);
  ProfileTable table = first_token_table();
  add_first_token({12, 64, 32, 9e-3, 10e-3, 8e-3}, table);
  add_first_token({6, 64, 32, 9e-3, 12e-3, 8e-3}, table);
  profile.tables = {table};
  const std::string page = profile_page(profile, "tandem profile").text();
  const auto count = [&](std::string_view part) {
    int found = 0;
    for (std::size_t at = page.find(part); at != std::string::npos; at = page.find(part, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("<figcaption>First token, "), 3);
  for (const char* name : {"8 tokens", "32 tokens", "64 tokens", "128 tokens", "256 tokens"}) {
    EXPECT_EQ(count(std::string("<title>") + name + "</title>"), 2 * 3) << name << ": line, shapes";
  }
  EXPECT_EQ(count("<title>more cores stop paying</title>"), 3);
  EXPECT_EQ(count("<title>measured</title>"), 1) << "of rank 64, one adapter alone";
  EXPECT_THAT(page, HasSubstr("predicted first tokens are off"));
  EXPECT_THAT(page, HasSubstr("25 %"));
}

TEST(ProfilePage, HasTheSpreadOfEachCostAndNamesTheUncertainOnes) {
  Profile profile = some_profile(12, 10);
  profile.figures = {{"link_bytes_per_s", 10e9, 0.012, true, ""},
                     {"trip_s", 5e-5, 0.4, false, "rounds differ"}};
  const std::string page = profile_page(profile, "tandem profile").text();
  EXPECT_THAT(page, HasSubstr("<td>+-1.2 %</td>"));
  EXPECT_THAT(page, HasSubstr("<td class=\"bad\">+-40 % ?</td>"));
  EXPECT_THAT(page, HasSubstr("trip_s: rounds differ"));
  EXPECT_THAT(page, HasSubstr("<dt>uncertain figures</dt><dd class=\"bad\">1</dd>"));
}

TEST(FirstTokensView, SaysThatCoresAreNotWeighedWhereNoneWereMeasured) {
  const Profile profile = some_profile(0, 10);
  EXPECT_THAT(first_tokens_text(profile), HasSubstr("`tandem profile --workers N`"));
  const std::string page = profile_page(profile, "tandem profile").text();
  EXPECT_THAT(page, HasSubstr("CPU workers: none were measured"));
  EXPECT_THAT(page, Not(HasSubstr("First token, ")));
}

}  // namespace
}  // namespace tandem
