#include "engine/model/layers/rotary_table.h"

#include <cmath>
#include <numbers>

namespace tandem {

std::vector<double> rotary_frequencies(const RotarySpec& rotary, std::int64_t head_dim) {
  std::vector<double> result(static_cast<std::size_t>(head_dim / 2));
  for (std::size_t i = 0; i < result.size(); ++i) {
    double frequency =
        std::pow(rotary.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    if (rotary.llama3) {
      const auto& scaling = *rotary.llama3;
      // The number of full rotations of this pair within the original context.
      const double turns =
          scaling.original_max_position_embeddings * frequency / (2 * std::numbers::pi);
      if (turns < scaling.low_freq_factor) {
        frequency /= scaling.factor;
      } else if (turns <= scaling.high_freq_factor) {
        const double keep = (turns - scaling.low_freq_factor) /
                            (scaling.high_freq_factor - scaling.low_freq_factor);
        frequency *= (1 - keep) / scaling.factor + keep;
      }
    }
    result[i] = frequency;
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
      row[i] = static_cast<float>(std::cos(static_cast<double>(angle)));
      row[half + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
  return table;
}

}  // namespace tandem
