#include "tools/bench/serve/plan/load_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace tandem {
namespace {

using ::testing::HasSubstr;

LoadPlan plan_of(const LoadPlanOptions& options) {
  auto dataset = make_dataset({}, options.num_prompts, nullptr);
  auto plan = make_load_plan(options, std::move(*dataset));
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? std::move(*plan) : LoadPlan{};
}

std::map<std::int32_t, int> counts_of(const LoadPlan& plan) {
  std::map<std::int32_t, int> counts;
  for (const PlannedRequest& request : plan.requests) ++counts[request.adapter];
  return counts;
}

TEST(LoadPlan, IsTheSameForTheSameSeedAndAnotherForAnother) {
  LoadPlanOptions options;
  options.num_prompts = 50;
  options.arrivals.requests_per_s = 10;
  options.adapters = {"a", "b", "c"};
  const LoadPlan one = plan_of(options);
  const LoadPlan same = plan_of(options);
  options.seed = 1;
  const LoadPlan other = plan_of(options);
  bool differs = false;
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(one.requests[i].due_s, same.requests[i].due_s);
    EXPECT_EQ(one.requests[i].adapter, same.requests[i].adapter);
    differs = differs || one.requests[i].due_s != other.requests[i].due_s;
  }
  EXPECT_TRUE(differs);
}

TEST(LoadPlan, WhoIsAskedForDoesNotChangeWhenRequestsCome) {
  LoadPlanOptions options;
  options.num_prompts = 50;
  options.arrivals.requests_per_s = 10;
  const LoadPlan base = plan_of(options);
  options.adapters = {"a", "b"};
  const LoadPlan adapters = plan_of(options);
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(base.requests[i].due_s, adapters.requests[i].due_s);
    EXPECT_EQ(base.requests[i].adapter, kBaseModel);
    EXPECT_GE(adapters.requests[i].adapter, 0);
  }
}

TEST(LoadPlan, AssignsInTurnEachOnceOrByZipfsLaw) {
  LoadPlanOptions options;
  options.num_prompts = 4;
  options.adapters = {"a", "b", "c", "d"};
  options.choice.assignment = "round-robin";
  for (std::int32_t i = 0; const PlannedRequest& request : plan_of(options).requests) {
    EXPECT_EQ(request.adapter, i++);
  }
  options.choice.assignment = "random";
  options.choice.distribution = "distinct";
  EXPECT_EQ(counts_of(plan_of(options)).size(), 4U);
  options.num_prompts = 5;
  auto dataset = make_dataset({}, 5, nullptr);
  EXPECT_THAT(make_load_plan(options, *dataset).status().message(), HasSubstr("--num-prompts"));

  options.num_prompts = 20'000;
  options.choice.distribution = "skewed";
  options.choice.zipf_alpha = 1;
  auto counts = counts_of(plan_of(options));
  const double sum = 1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4;
  for (int place = 1; place <= 4; ++place) {
    EXPECT_NEAR(counts[place - 1] / 20'000.0, 1 / (place * sum), 0.015) << place;
  }
}

TEST(LoadPlan, MixesAdaptersAndTheBaseByShares) {
  LoadPlanOptions options;
  options.num_prompts = 20'000;
  options.adapters = {"a", "b"};
  options.choice.mix = {{"base", 2}, {"b", 1}, {"a", 1}};
  auto counts = counts_of(plan_of(options));
  EXPECT_NEAR(counts[kBaseModel], 10'000, 300);
  EXPECT_NEAR(counts[0], 5'000, 300);
  options.choice.mix = {{"c", 1}};
  auto dataset = make_dataset({}, 5, nullptr);
  EXPECT_THAT(make_load_plan(options, *dataset).status().message(), HasSubstr("'c'"));
}

TEST(LoadPlan, GivesEachAdapterItsOwnRate) {
  LoadPlanOptions options;
  options.num_prompts = 1000;
  options.adapters = {"a", "b"};
  options.rates = {{"a", 9}, {"b", 1}};
  const LoadPlan plan = plan_of(options);
  auto counts = counts_of(plan);
  EXPECT_EQ(counts[0], 900);
  EXPECT_EQ(counts[1], 100);
  EXPECT_NEAR(plan.requests.back().due_s, 100, 1e-6);
  EXPECT_TRUE(std::ranges::is_sorted(plan.requests, {}, &PlannedRequest::due_s));
  options.arrivals.requests_per_s = 3;
  auto dataset = make_dataset({}, 5, nullptr);
  EXPECT_THAT(make_load_plan(options, *dataset).status().message(), HasSubstr("--request-rate"));
}

TEST(LoadPlan, ATraceHasItsOwnTimesAndAdapters) {
  Dataset dataset;
  dataset.prompts.resize(3);
  dataset.due_s = {0, 1, 5};
  dataset.adapters = {"b", "", "a"};
  LoadPlanOptions options;
  auto plan = make_load_plan(options, dataset);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->adapters, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(plan->requests[0].adapter, 1);
  EXPECT_EQ(plan->requests[1].adapter, kBaseModel);
  EXPECT_EQ(plan->requests[2].due_s, 5);
  options.arrivals.requests_per_s = 3;
  EXPECT_FALSE(make_load_plan(options, dataset).ok());
}

TEST(NamedNumbers, RefuseWhatIsNotANameAndANumberAboveZero) {
  EXPECT_EQ(*parse_named_numbers("x", {"a=0.5", "b=c=2"}), (NamedNumbers{{"a", 0.5}, {"b=c", 2}}));
  for (const char* text : {"a", "=1", "a=", "a=0", "a=-1", "a=x", "a=inf"}) {
    EXPECT_FALSE(parse_named_numbers("x", {text}).ok()) << text;
  }
  EXPECT_FALSE(parse_named_numbers("x", {"a=1", "a=2"}).ok());
}

}  // namespace
}  // namespace tandem
