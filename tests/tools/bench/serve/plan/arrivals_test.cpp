#include "tools/bench/serve/plan/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace tandem {
namespace {

double variation(const std::vector<double>& times) {
  double sum = 0;
  double squares = 0;
  for (std::size_t i = 1; i < times.size(); ++i) {
    const double pause = times[i] - times[i - 1];
    sum += pause;
    squares += pause * pause;
  }
  const auto count = static_cast<double>(times.size() - 1);
  const double mean = sum / count;
  return std::sqrt(squares / count - mean * mean) / mean;
}

std::vector<double> draw(const ArrivalOptions& options, std::int64_t count) {
  std::mt19937_64 random(7);
  const auto times = arrival_times(options, count, random);
  EXPECT_TRUE(times.ok()) << times.status().message();
  return times.ok() ? *times : std::vector<double>();
}

TEST(Arrivals, WithoutARateComeAllAtOnce) {
  EXPECT_EQ(draw({}, 3), (std::vector<double>{0, 0, 0}));
}

TEST(Arrivals, OfferExactlyTheRateAndSpreadItAsBurstinessSays) {
  for (const double burstiness : {0.25, 1.0, 4.0}) {
    ArrivalOptions options;
    options.requests_per_s = 20;
    options.burstiness = burstiness;
    const auto times = draw(options, 20'000);
    EXPECT_NEAR(times.back(), 1000, 1e-6);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    // The expected variation is that of a gamma distribution.
    EXPECT_NEAR(variation(times), 1 / std::sqrt(burstiness), 0.06 / std::sqrt(burstiness));
  }
}

TEST(Arrivals, OfABurstComeTogetherAtTheRateOfRequests) {
  ArrivalOptions options;
  options.requests_per_s = 16;
  options.burst_size = 8;
  const auto times = draw(options, 80);
  EXPECT_EQ(std::set<double>(times.begin(), times.end()).size(), 10U);
  EXPECT_NEAR(times.back(), 5, 1e-9);
}

TEST(Arrivals, RampUpFromTheFirstRateToTheLast) {
  for (const char* strategy : {"linear", "exponential"}) {
    ArrivalOptions options;
    options.ramp_up = strategy;
    options.start_rps = 1;
    options.end_rps = 100;
    options.burstiness = 1e6;  // nearly constant pauses
    const auto times = draw(options, 101);
    EXPECT_NEAR(times[0], 1, 0.01) << strategy;
    EXPECT_NEAR(times[100] - times[99], 0.01, 0.0002) << strategy;
    const double halfway = std::string(strategy) == "linear" ? 50.5 : 10;
    EXPECT_NEAR(times[50] - times[49], 1 / halfway, 0.03 / halfway) << strategy;
  }
}

TEST(Arrivals, RefuseWhatIsNoRate) {
  for (const char* text : {"", "0", "-1", "nan", "9x", "infinity"}) {
    EXPECT_FALSE(parse_rate("request_rate", text).ok()) << text;
  }
  EXPECT_EQ(*parse_rate("request_rate", "inf"), kAllAtOnce);
  EXPECT_EQ(*parse_rate("request_rate", "0.5"), 0.5);
}

TEST(Arrivals, RefuseARampWithoutBothItsRatesOrBesideARate) {
  std::mt19937_64 random(7);
  ArrivalOptions options;
  options.ramp_up = "linear";
  options.start_rps = 1;
  EXPECT_FALSE(arrival_times(options, 2, random).ok());
  options.end_rps = 2;
  EXPECT_TRUE(arrival_times(options, 2, random).ok());
  options.requests_per_s = 3;
  EXPECT_FALSE(arrival_times(options, 2, random).ok());
  options.requests_per_s = kAllAtOnce;
  options.ramp_up = "steep";
  EXPECT_FALSE(arrival_times(options, 2, random).ok());
}

}  // namespace
}  // namespace tandem
