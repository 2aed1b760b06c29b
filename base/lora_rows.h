// The rows of B of a LoRA module, as loaders, devices and CPU workers agree on them: `rank`
// columns, zeros up to whole 16 bytes and, if the module has a bias (PEFT's lora_bias), 16 bytes
// more, which begin with it.
//
// Rows of an adapter's own for a few tokens (PEFT's trainable tokens) are such a pair, too: A has
// the rows, by ascending token, and B is one row that begins with the tokens' ids, int32. A vector
// of an adapter's own, such as a norm's weight, is a B alone, with a float in each row.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace tandem {

// The elements of 16 bytes.
constexpr std::int64_t lora_group(DType dtype) {
  return 16 / static_cast<std::int64_t>(size_of(dtype));
}

// The elements of a row.
constexpr std::int64_t lora_row(std::int64_t rank, bool has_bias, DType dtype) {
  const std::int64_t group = lora_group(dtype);
  return (rank + group - 1) / group * group + (has_bias ? group : 0);
}

// The leading elements of a row by which v is multiplied: `rank`, or all up to the bias, where v is
// 1. At most rank + lora_group(dtype).
constexpr std::int64_t lora_inner(std::int64_t rank, std::int64_t row, DType dtype) {
  const std::int64_t with_bias = lora_row(rank, true, dtype);
  return row == with_bias ? with_bias - lora_group(dtype) + 1 : rank;
}

// The elements of the one row of B that holds the ids of `tokens` tokens.
constexpr std::int64_t token_ids_row(std::int64_t tokens, DType dtype) {
  const std::int64_t per_group = 16 / static_cast<std::int64_t>(sizeof(std::int32_t));
  return (tokens + per_group - 1) / per_group * lora_group(dtype);
}

// The elements of a row of B that holds a float.
constexpr std::int64_t vector_row(DType dtype) {
  return static_cast<std::int64_t>(sizeof(float) / size_of(dtype));
}

}  // namespace tandem
