#include "engine/model/layers/rotary_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tandem {

namespace {

// The share of a frequency that stays as it is, 0 to 1; the rest of it is divided by the factor.
double kept_by(const RotarySpec::Llama3Scaling& scaling, double frequency) {
  // The number of full rotations of this pair within the original context.
  const double rotations =
      scaling.original_max_position_embeddings * frequency / (2 * std::numbers::pi);
  return std::clamp(
      (rotations - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor),
      0.0, 1.0);
}

// The same for pair `i` of a rotary embedding of `rotated` elements.
double kept_by(const RotarySpec::YarnScaling& scaling, double theta, double rotated, double i) {
  // The pair that rotates so many times within the original context, as a fraction.
  const auto pair_of = [&](double rotations) {
    return rotated *
           std::log(scaling.original_max_position_embeddings / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  double low = pair_of(scaling.beta_fast);
  double high = pair_of(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rotated - 1);
  if (low == high) high += 0.001;  // as in transformers: no division by zero
  return 1 - std::clamp((i - low) / (high - low), 0.0, 1.0);
}

// The base of the frequencies (NTK-aware scaling; transformers' rope type "dynamic").
double theta_of(const RotarySpec& rotary, double rotated, std::int64_t length) {
  if (!rotary.dynamic || length <= rotary.dynamic->original || rotated <= 2) return rotary.theta;
  const double factor = rotary.dynamic->factor;
  const double growth =
      factor * static_cast<double>(length) / static_cast<double>(rotary.dynamic->original) -
      (factor - 1);
  return rotary.theta * std::pow(growth, rotated / (rotated - 2));
}

}  // namespace

std::vector<double> rotary_frequencies(const RotarySpec& rotary, std::int64_t head_dim,
                                       std::int64_t length) {
  const auto rotated = static_cast<double>(rotary.rotated == 0 ? head_dim : rotary.rotated);
  const double theta = theta_of(rotary, rotated, length);
  const bool is_long = rotary.longrope && length > rotary.longrope->original;
  std::vector<double> result(static_cast<std::size_t>(rotated / 2));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto pair = static_cast<double>(i);
    double frequency = std::pow(theta, -2 * pair / rotated);
    if (const auto& scaling = rotary.longrope) {
      frequency /= (is_long ? scaling->long_factors : scaling->short_factors)[i];
    }
    if (rotary.llama3) {
      const double kept = kept_by(*rotary.llama3, frequency);
      frequency *= (1 - kept) / rotary.llama3->factor + kept;
    }
    if (rotary.yarn) {
      const double kept = kept_by(*rotary.yarn, rotary.theta, rotated, pair);
      frequency *= (1 - kept) / rotary.yarn->factor + kept;
    }
    if (!rotary.divisors.empty()) frequency /= rotary.divisors[i];
    const bool turns = rotary.turning == 0 || static_cast<std::int64_t>(i) < rotary.turning;
    result[i] = turns ? frequency / rotary.linear_factor : 0;
  }
  return result;
}

std::vector<float> make_rotary_table(const RotarySpec& rotary, std::int64_t head_dim,
                                     std::int64_t positions) {
  const std::vector<double> frequencies = rotary_frequencies(rotary, head_dim);
  const std::size_t half = frequencies.size();
  std::vector<float> table(static_cast<std::size_t>(positions) * 2 * half);
  for (std::size_t position = 0; position < static_cast<std::size_t>(positions); ++position) {
    float* row = table.data() + position * 2 * half;
    for (std::size_t i = 0; i < half; ++i) {
      // The angle is rounded to float, as transformers multiplies in float.
      const float angle = static_cast<float>(position) * static_cast<float>(frequencies[i]);
      row[i] = static_cast<float>(std::cos(static_cast<double>(angle)) * rotary.attention_factor);
      row[half + i] =
          static_cast<float>(std::sin(static_cast<double>(angle)) * rotary.attention_factor);
    }
  }
  return table;
}

std::vector<float> make_rotary_choices(const RotarySpec& rotary, std::int64_t head_dim,
                                       std::int64_t positions) {
  const std::int64_t shortest = rotary.original_length();
  const std::int64_t longest = rotary.dynamic ? std::max(positions, shortest) : shortest + 1;
  std::vector<float> choices;
  for (std::int64_t length = shortest; length <= longest; ++length) {
    for (const double frequency : rotary_frequencies(rotary, head_dim, length)) {
      choices.push_back(static_cast<float>(frequency));
    }
  }
  return choices;
}

std::vector<float> make_query_scales(const QueryScale& scale, std::int64_t positions) {
  std::vector<float> scales(static_cast<std::size_t>(positions));
  for (std::size_t p = 0; p < scales.size(); ++p) {
    const double whole = std::floor(static_cast<double>(p) / scale.original);
    scales[p] = static_cast<float>(1 + scale.beta * std::log(1 + whole));
  }
  return scales;
}

}  // namespace tandem
