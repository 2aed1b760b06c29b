// Runs row-by-row operations on the pool.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/tensor.h"
#include "gpu/host/context/context.h"

namespace tandem::host {

inline std::int64_t bytes_of(const TensorView& view) {
  return view.num_elements() * static_cast<std::int64_t>(size_of(view.dtype));
}

// Calls body(begin, end, worker) for ranges of rows, with several tasks per thread; or without the
// worker.
template <typename Body>
void for_row_ranges(OpContext& context, std::int64_t rows, std::int64_t bytes, Body body) {
  const std::int64_t per_task = ceil_div(rows, 4 * context.pool->num_threads());
  if (rows == 0) return;
  context.for_each(ceil_div(rows, per_task), bytes, [&](std::int64_t task, int worker) {
    const std::int64_t begin = task * per_task;
    const std::int64_t end = std::min(rows, begin + per_task);
    if constexpr (std::is_invocable_v<Body, std::int64_t, std::int64_t, int>) {
      body(begin, end, worker);
    } else {
      body(begin, end);
    }
  });
}

}  // namespace tandem::host
