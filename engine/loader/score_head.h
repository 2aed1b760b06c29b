// The head of a model that scores a text or sorts it into classes (SEQ_CLS): a matrix with a row
// for each label, applied to the state of the text's last token.
//
// It stays in host memory and is computed there: it multiplies one row for each text, which is
// little beside the layers, and an adapter's head then needs no place on the device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/loader/weights.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

// Immutable when shared.
struct ScoreHead {
  std::vector<float> weight;  // [labels, hidden]
  std::int64_t labels = 0;    // 1 to kMaxLabels

  // Returns [labels]: the products with `state`, [hidden], not normalised.
  std::vector<float> scores(std::span<const float> state) const;
  bool is_finite() const;
};

// Reads the head of a base with labels, "score.weight"; null if the base has none. Fails if the
// tensor is missing, of another shape, or not finite.
Result<std::shared_ptr<const ScoreHead>> read_score_head(const WeightSource& weights,
                                                         const ModelSpec& spec);

}  // namespace tandem
