// How often each adapter of many is asked for.
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
//            al., "Serverless in the Wild"): 45 % are called once an hour at most, 81 % once a
//            minute at most, and rates span eight orders of magnitude. The log-normal through both
//            points, cut at 1e8 calls a day
//   zipf     1 / place^exponent
//   uniform  all the same
Result<std::vector<double>> popularity_weights(std::string_view kind, std::int64_t count,
                                               double zipf_exponent);

// Draws an index with the probability of its weight in constant time (Walker's alias method).
class WeightedChoice {
 public:
  // Weights finite, none below zero, some above.
  explicit WeightedChoice(const std::vector<double>& weights);
  std::size_t draw(std::mt19937_64& random) const;

 private:
  std::vector<double> keep_;
  std::vector<std::uint32_t> other_;
};

}  // namespace tandem
