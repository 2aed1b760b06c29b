#include "engine/loader/score_head.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace tandem {

std::vector<float> ScoreHead::scores(std::span<const float> state) const {
  TANDEM_CHECK(weight.size() == static_cast<std::size_t>(labels) * state.size());
  std::vector<float> result;
  for (auto row = weight.begin(); row != weight.end(); row += std::ssize(state)) {
    result.push_back(static_cast<float>(std::inner_product(state.begin(), state.end(), row, 0.0)));
  }
  return result;
}

bool ScoreHead::is_finite() const {
  return std::ranges::all_of(weight, [](float value) { return std::isfinite(value); });
}

Result<std::shared_ptr<const ScoreHead>> read_score_head(const WeightSource& weights,
                                                         const ModelSpec& spec) {
  if (spec.labels.empty()) return std::shared_ptr<const ScoreHead>();
  constexpr const char* kName = "score.weight";
  auto head = std::make_shared<ScoreHead>();
  head->labels = std::ssize(spec.labels);
  const std::array shape = {head->labels, spec.hidden_size};
  head->weight.resize(static_cast<std::size_t>(shape[0] * shape[1]));
  TANDEM_TRY(weights.read(kName, shape, DType::f32, head->weight.data()));
  if (!head->is_finite()) return invalid("'{}' holds a NaN or an infinity", kName);
  return std::shared_ptr<const ScoreHead>(std::move(head));
}

}  // namespace tandem
