#include "engine/batching/line/state_sum.h"

#include <cstddef>

#include "base/check.h"

namespace tandem {
namespace {

template <typename T>
void add_row(const std::byte* row, std::vector<double>& sum) {
  const T* const values = reinterpret_cast<const T*>(row);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += to_float(values[i]);
}

}  // namespace

void StateSum::add(const TensorView& states) {
  if (states.rank == 0 || states.rows() == 0) return;
  const auto width = static_cast<std::size_t>(states.cols());
  sum_.resize(width);
  for (std::int64_t i = 0; i < states.rows(); ++i) {
    const std::byte* const row = states.row_bytes(i);
    switch (states.dtype) {
      case DType::f32:
        add_row<float>(row, sum_);
        break;
      case DType::f16:
        add_row<f16>(row, sum_);
        break;
      case DType::bf16:
        add_row<bf16>(row, sum_);
        break;
      case DType::i32:
        TANDEM_CHECK(false, "states are no integers");
    }
  }
  rows_ += states.rows();
}

void StateSum::add(const StateSum& other) {
  sum_.resize(other.sum_.empty() ? sum_.size() : other.sum_.size());
  for (std::size_t i = 0; i < other.sum_.size(); ++i) sum_[i] += other.sum_[i];
  rows_ += other.rows_;
}

std::vector<float> StateSum::mean() const {
  std::vector<float> mean;
  mean.reserve(sum_.size());
  for (const double sum : sum_) {
    mean.push_back(static_cast<float>(sum / static_cast<double>(rows_)));
  }
  return mean;
}

}  // namespace tandem
