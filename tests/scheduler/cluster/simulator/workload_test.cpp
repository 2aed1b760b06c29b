#include "scheduler/cluster/simulator/workload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/check.h"

namespace tandem {
namespace {

std::vector<SimRequest> all_requests(const WorkloadOptions& options,
                                     const AzureTrace* trace = nullptr) {
  auto workload = Workload::create(options, trace);
  TANDEM_CHECK(workload.ok(), "{}", workload.status().message());
  std::vector<SimRequest> requests;
  while (const auto request = workload->next()) requests.push_back(*request);
  return requests;
}

WorkloadOptions small_workload() {
  WorkloadOptions options;
  options.requests_per_s = 100;
  options.duration_s = 200;
  options.adapters = 1000;
  return options;
}

TEST(Workload, ComesInOrderAtItsRateAndWithItsLengths) {
  const std::vector<SimRequest> requests = all_requests(small_workload());
  EXPECT_NEAR(static_cast<double>(requests.size()), 20'000, 500);
  double before = 0;
  double prompt = 0;
  double answer = 0;
  for (const SimRequest& request : requests) {
    ASSERT_GE(request.arrival_s, before);
    ASSERT_LT(request.arrival_s, 200);
    before = request.arrival_s;
    ASSERT_GE(request.prompt_tokens, 1);
    ASSERT_GE(request.answer_tokens, 1);
    prompt += request.prompt_tokens;
    answer += request.answer_tokens;
  }
  EXPECT_NEAR(prompt / static_cast<double>(requests.size()), 19, 1);
  EXPECT_NEAR(answer / static_cast<double>(requests.size()), 58, 3);
}

TEST(Workload, RisesAndFalls) {
  WorkloadOptions options = small_workload();
  options.arrivals = "rise_and_fall";
  std::vector<double> quarters(4);
  for (const SimRequest& request : all_requests(options)) {
    ++quarters[static_cast<std::size_t>(request.arrival_s / 50)];
  }
  // The rate is 0, 100, 200, 100 and 0 a second at 0, 50, 100, 150 and 200 s.
  EXPECT_NEAR(quarters[0], 2'500, 250);
  EXPECT_NEAR(quarters[1], 7'500, 450);
  EXPECT_NEAR(quarters[2], 7'500, 450);
  EXPECT_NEAR(quarters[3], 2'500, 250);
}

TEST(Workload, IsTheSameForASeedAndAnAdapterHasOneRank) {
  WorkloadOptions options = small_workload();
  const auto once = all_requests(options);
  const auto again = all_requests(options);
  options.seed = 2;
  const auto other = all_requests(options);
  ASSERT_EQ(once.size(), again.size());
  std::vector<std::int32_t> rank(1000, 0);
  std::set<std::int32_t> ranks;
  for (std::size_t i = 0; i < once.size(); ++i) {
    ASSERT_EQ(once[i].arrival_s, again[i].arrival_s);
    ASSERT_EQ(once[i].adapter, again[i].adapter);
    std::int32_t& known = rank[once[i].adapter.index()];
    if (known != 0) {
      ASSERT_EQ(known, once[i].rank);
    }
    known = once[i].rank;
    ranks.insert(known);
  }
  EXPECT_EQ(ranks, (std::set<std::int32_t>{8, 16, 32, 64}));
  EXPECT_NE(once.front().arrival_s, other.front().arrival_s);
}

double pauses_cv(const std::vector<SimRequest>& requests) {
  double sum = 0;
  double squares = 0;
  for (std::size_t i = 1; i < requests.size(); ++i) {
    const double pause = requests[i].arrival_s - requests[i - 1].arrival_s;
    sum += pause;
    squares += pause * pause;
  }
  const double count = static_cast<double>(requests.size()) - 1;
  const double mean = sum / count;
  return std::sqrt(squares / count - mean * mean) / mean;
}

TEST(Workload, BeginsAnAdaptersPromptsWithItsPrefixesAndChangesNothingElse) {
  WorkloadOptions options = small_workload();
  const auto without = all_requests(options);
  options.prefixes = 3;
  options.prefix_tokens = 100;
  const auto with = all_requests(options);
  ASSERT_EQ(with.size(), without.size());
  std::set<std::int64_t> of_the_first;
  for (std::size_t i = 0; i < with.size(); ++i) {
    EXPECT_EQ(without[i].prefix_tokens, 0);
    EXPECT_EQ(with[i].prefix_tokens, 100);
    EXPECT_EQ(with[i].prompt_tokens, without[i].prompt_tokens + 100);
    EXPECT_EQ(with[i].answer_tokens, without[i].answer_tokens);
    EXPECT_EQ(with[i].adapter, without[i].adapter);
    EXPECT_EQ(with[i].prefix / 3, with[i].adapter.value());
    if (with[i].adapter.value() == 0) of_the_first.insert(with[i].prefix);
  }
  EXPECT_EQ(of_the_first.size(), 3U);
  options.prefixes = -1;
  EXPECT_FALSE(Workload::create(options, nullptr).ok());
}

TEST(Workload, OfGammaArrivalsHasItsCoefficientOfVariation) {
  WorkloadOptions options = small_workload();
  EXPECT_NEAR(pauses_cv(all_requests(options)), 1, 0.1);
  options.arrivals = "gamma";
  options.cv = 3;
  EXPECT_NEAR(pauses_cv(all_requests(options)), 3, 0.3);
}

TEST(Workload, ShiftsItsPopularity) {
  WorkloadOptions options = small_workload();
  options.shift_at = 0.5;
  int first_half[2] = {0, 0};  // for the lower half of the adapters, before and after
  for (const SimRequest& request : all_requests(options)) {
    if (request.adapter.value() < 500) ++first_half[request.arrival_s < 100 ? 0 : 1];
  }
  EXPECT_GT(first_half[0], 100 * (first_half[1] + 1));
}

TEST(Workload, OfATraceFollowsItsMinutesAndIsScaled) {
  const auto trace = parse_azure_trace(
      "HashOwner,HashApp,HashFunction,Trigger,1,2\no,a,f,http,30,0\no,a,g,http,0,90\n");
  ASSERT_TRUE(trace.ok());
  WorkloadOptions options = small_workload();
  options.arrivals = "trace";
  options.requests_per_s = 10;
  int calls[2] = {0, 0};
  for (const SimRequest& request : all_requests(options, &*trace)) {
    ASSERT_EQ(request.adapter.value(), request.arrival_s < 60 ? 0 : 1);
    ++calls[request.adapter.index()];
  }
  EXPECT_NEAR(calls[0], 300, 1);
  EXPECT_NEAR(calls[1], 900, 1);
}

TEST(Workload, RefusesWhatCannotBe) {
  const auto refused = [](auto change) {
    WorkloadOptions options = small_workload();
    change(options);
    return !Workload::create(options, nullptr).ok();
  };
  EXPECT_TRUE(refused([](WorkloadOptions& o) { o.requests_per_s = 0; }));
  EXPECT_TRUE(refused([](WorkloadOptions& o) { o.duration_s = -1; }));
  EXPECT_TRUE(refused([](WorkloadOptions& o) { o.adapters = 0; }));
  EXPECT_TRUE(refused([](WorkloadOptions& o) { o.ranks = {8, 4096}; }));
  EXPECT_TRUE(refused([](WorkloadOptions& o) { o.ranks = {}; }));
  EXPECT_TRUE(refused([](WorkloadOptions& o) { o.shift_at = 1; }));
  EXPECT_TRUE(refused([](WorkloadOptions& o) { o.lengths = "long"; }));
  EXPECT_TRUE(refused([](WorkloadOptions& o) { o.arrivals = "trace"; }));
  EXPECT_TRUE(refused([](WorkloadOptions& o) { o.arrivals = "often"; }));
  EXPECT_FALSE(refused([](WorkloadOptions&) {}));
}

}  // namespace
}  // namespace tandem
