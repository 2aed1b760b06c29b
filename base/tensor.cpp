#include "base/tensor.h"

#include <fmt/ranges.h>

#include <span>

namespace tandem {

TensorView::TensorView(void* pointer, DType type, std::initializer_list<std::int64_t> dims)
    : data(pointer), dtype(type), rank(static_cast<int>(dims.size())) {
  TANDEM_CHECK(rank >= 1 && rank <= kMaxRank, "rank {}", rank);
  int i = 0;
  for (const std::int64_t size : dims) {
    TANDEM_CHECK(size >= 0, "negative dimension {}", size);
    dim[i++] = size;
  }
  std::int64_t step = 1;
  for (i = rank - 1; i >= 0; --i) {
    stride[i] = step;
    step *= dim[i];
  }
}

std::int64_t TensorView::num_elements() const {
  std::int64_t count = rank == 0 ? 0 : 1;
  for (int i = 0; i < rank; ++i) count *= dim[i];
  return count;
}

bool TensorView::is_dense() const {
  std::int64_t step = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (stride[i] != step && dim[i] > 1) return false;
    step *= dim[i];
  }
  return true;
}

namespace {

void advance(TensorView& view, std::int64_t elements) {
  view.data = static_cast<std::byte*>(view.data) +
              elements * static_cast<std::int64_t>(size_of(view.dtype));
}

}  // namespace

TensorView TensorView::slice_rows(std::int64_t begin, std::int64_t count) const {
  TANDEM_CHECK(begin >= 0 && count >= 0 && begin + count <= dim[0], "rows {}+{} of {}", begin,
               count, dim[0]);
  TensorView result = *this;
  advance(result, begin * stride[0]);
  result.dim[0] = count;
  return result;
}

TensorView TensorView::slice_cols(std::int64_t begin, std::int64_t count) const {
  TANDEM_CHECK(begin >= 0 && count >= 0 && begin + count <= cols(), "columns {}+{} of {}", begin,
               count, cols());
  TensorView result = *this;
  advance(result, begin);
  result.dim[rank - 1] = count;
  return result;
}

TensorView TensorView::split_cols(std::int64_t heads) const {
  TANDEM_CHECK(rank == 2 && heads > 0 && cols() % heads == 0, "{} heads of {}", heads, cols());
  TensorView result = *this;
  const std::int64_t width = cols() / heads;
  result.rank = 3;
  result.dim = {dim[0], heads, width, 0};
  result.stride = {stride[0], width, 1, 0};
  return result;
}

std::string to_string(const TensorView& view) {
  return fmt::format(
      "{}[{}]", to_string(view.dtype),
      fmt::join(std::span(view.dim.data(), static_cast<std::size_t>(view.rank)), ", "));
}

}  // namespace tandem
