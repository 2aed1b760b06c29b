#include "scheduler/cluster/simulator/popularity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace tandem {
namespace {

// The quantile of the standard normal distribution.
double normal_quantile(double share) {
  double low = -9;
  double high = 9;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::vector<double> azure_rates(std::int64_t count) {
  const double hourly = normal_quantile(0.45);
  const double minutely = normal_quantile(0.81);
  const double sigma = std::log(60.0) / (minutely - hourly);
  const double mu = std::log(1.0 / 3600) - sigma * hourly;
  constexpr double kMostPerS = 1e8 / 86'400;
  std::vector<double> rates;
  for (std::int64_t i = 0; i < count; ++i) {
    // Quantiles are used instead of draws, so that the skew is the same for every seed.
    const double share = 1 - (static_cast<double>(i) + 0.5) / static_cast<double>(count);
    rates.push_back(std::min(kMostPerS, std::exp(mu + sigma * normal_quantile(share))));
  }
  return rates;
}

}  // namespace

Result<std::vector<double>> popularity_weights(std::string_view kind, std::int64_t count,
                                               double zipf_exponent) {
  TANDEM_CHECK(count > 0, "{} adapters", count);
  std::vector<double> weights;
  if (kind == "azure") {
    weights = azure_rates(count);
  } else if (kind == "zipf") {
    for (std::int64_t i = 1; i <= count; ++i) {
      weights.push_back(std::pow(static_cast<double>(i), -zipf_exponent));
    }
  } else if (kind == "uniform") {
    weights.assign(static_cast<std::size_t>(count), 1.0);
  } else {
    return invalid("popularity '{}' is unknown; there are azure, zipf, uniform", kind);
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

WeightedChoice::WeightedChoice(const std::vector<double>& weights)
    : keep_(weights.size(), 1), other_(weights.size(), 0) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  TANDEM_CHECK(std::isfinite(sum) && sum > 0, "weights with the sum {}", sum);
  std::vector<std::uint32_t> small;
  std::vector<std::uint32_t> large;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    keep_[i] = weights[i] / sum * static_cast<double>(weights.size());
    (keep_[i] < 1 ? small : large).push_back(static_cast<std::uint32_t>(i));
  }
  while (!small.empty() && !large.empty()) {
    const std::uint32_t low = small.back();
    const std::uint32_t high = large.back();
    small.pop_back();
    other_[low] = high;
    keep_[high] -= 1 - keep_[low];
    if (keep_[high] < 1) {
      large.pop_back();
      small.push_back(high);
    }
  }
  // Rounding leaves some entries over; they keep their whole probability.
  for (const std::uint32_t i : small) keep_[i] = 1;
  for (const std::uint32_t i : large) keep_[i] = 1;
}

std::size_t WeightedChoice::draw(std::mt19937_64& random) const {
  const double at =
      std::uniform_real_distribution<double>(0, static_cast<double>(keep_.size()))(random);
  const std::size_t i = std::min(static_cast<std::size_t>(at), keep_.size() - 1);
  return at - static_cast<double>(i) < keep_[i] ? i : other_[i];
}

}  // namespace tandem
