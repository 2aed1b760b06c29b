// The request frequency of each of many adapters.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

// Weights of `count` adapters, the most popular first; their sum is one.
//
//   azure    functions of the Azure Functions trace of 2019 as its paper describes them (Shahrad et
//            al., "Serverless in the Wild"): 45 % are called at most once an hour, 81 % at most
//            once a minute, and rates span eight orders of magnitude. A log-normal distribution
//            through both points, cut at 1e8 calls a day
//   zipf     1 / place^exponent
//   uniform  all weights equal
Result<std::vector<double>> popularity_weights(std::string_view kind, std::int64_t count,
                                               double zipf_exponent);

// Draws an index with probability proportional to its weight in constant time (Walker's alias
// method).
class WeightedChoice {
 public:
  // Weights are finite and not negative, and at least one is above zero.
  explicit WeightedChoice(const std::vector<double>& weights);
  std::size_t draw(std::mt19937_64& random) const;

 private:
  std::vector<double> keep_;
  std::vector<std::uint32_t> other_;
};

}  // namespace tandem
