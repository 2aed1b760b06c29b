// The sum of a prompt's states, for requests that ask for states (Pooling). Steps add their rows as
// they end, so that a prompt may be computed in pieces, and be preempted between two of them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/tensor.h"

namespace tandem {

class StateSum {
 public:
  // Adds the rows of `states`, [rows, hidden] of f32, f16 or bf16 in host memory.
  void add(const TensorView& states);
  // Adds the rows that `other` has added.
  void add(const StateSum& other);

  // The mean over the rows, rounded once; empty without rows.
  std::vector<float> mean() const;

 private:
  std::vector<double> sum_;
  std::int64_t rows_ = 0;
};

}  // namespace tandem
