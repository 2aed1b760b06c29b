// The adapters' deltas: one pass over the pool for all x A^T, one for all (x A^T) B^T, or only one
// of the two. A task owns a block of rows of A (or B) of one segment and module and reads it once
// for up to eight rows of x. Weights in a pool's chunks are read in place if they are adjacent,
// otherwise they are copied together first: a task's bytes fit the cache.
#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/lora_rows.h"
#include "gpu/host/kernels/kernels.h"
#include "gpu/host/ops/lora_pages.h"
#include "gpu/host/ops/operations.h"

namespace tandem::host {
namespace {

struct Task {
  const LoraSegment* segment;
  const LoraMatrix* matrix;
  std::int32_t module;
  std::int32_t begin;  // first row of A or B
  std::int32_t count;
};

const LoraMatrix& matrix_of(const LoraArgs& args, const LoraSegment& segment, std::int32_t module) {
  return args.table[segment.slot * args.slot_stride + module];
}

// Cuts each matrix into tasks of about `bytes`.
template <typename RowsOf, typename WidthOf>
std::vector<Task> cut(const LoraArgs& args, std::int64_t bytes, RowsOf rows_of, WidthOf width_of) {
  std::vector<Task> tasks;
  const auto size = static_cast<std::int64_t>(size_of(args.x.dtype));
  for (std::int32_t s = 0; s < args.num_segments; ++s) {
    const LoraSegment& segment = args.segments[s];
    if (segment.count == 0) continue;
    for (std::int32_t m = 0; m < args.num_modules; ++m) {
      const LoraMatrix& matrix = matrix_of(args, segment, m);
      if (matrix.rank == 0) continue;
      TANDEM_CHECK(matrix.rank <= args.max_rank, "rank {} above {}", matrix.rank, args.max_rank);
      const std::int64_t rows = rows_of(matrix, m);
      // Long segments compute more for every byte read.
      const std::int64_t cost = width_of(matrix) * size * std::max(1, segment.count / 8);
      const std::int64_t block = std::clamp<std::int64_t>(
          bytes / std::max<std::int64_t>(cost, 1) / 15 * 15, 15, std::max<std::int64_t>(rows, 15));
      for (std::int64_t begin = 0; begin < rows; begin += block) {
        tasks.push_back({&segment, &matrix, m, static_cast<std::int32_t>(begin),
                         static_cast<std::int32_t>(std::min(block, rows - begin))});
      }
    }
  }
  return tasks;
}

// The ranks of A by which the operation multiplies.
struct RankRange {
  std::int32_t first;
  std::int32_t count;
};
RankRange ranks_of(const LoraArgs& args, const LoraMatrix& matrix) {
  if (args.part != LoraPart::shrink) return {0, matrix.rank};
  const std::int32_t each = lora_share(matrix.rank, args.num_shares);
  const std::int32_t first = std::min(args.share * each, matrix.rank);
  return {first, std::min(each, matrix.rank - first)};
}

// v of all modules for the rows in the segments' order, with a padded piece for each module.
struct InnerRows {
  float* data;
  std::int64_t module_stride;
  std::int64_t row_stride;
  float* at(std::int64_t row, std::int32_t module) const {
    return data + row * row_stride + module * module_stride;
  }
};

// v = x A^T; the rows of x are in the segments' order, and float.
void shrink(OpContext& context, const LoraArgs& args, const float* x, std::int64_t x_stride,
            const InnerRows& v) {
  const std::int64_t in = args.x.cols();
  const auto size = static_cast<std::int64_t>(size_of(args.x.dtype));
  const std::vector<Task> tasks = cut(
      args, 64 << 10,
      [&](const LoraMatrix& matrix, std::int32_t) { return ranks_of(args, matrix).count; },
      [&](const LoraMatrix&) { return in; });
  const auto num_tasks = static_cast<std::int64_t>(tasks.size());
  context.for_each(num_tasks, num_tasks * in * size * 15, [&](std::int64_t i, int worker) {
    const Task& task = tasks[static_cast<std::size_t>(i)];
    const std::int64_t row = ranks_of(args, *task.matrix).first + task.begin;
    const std::byte* a = weights_at(args.pages, task.segment->slot, task.matrix->a, row * in * size,
                                    task.count * in * size,
                                    context.workers[static_cast<std::size_t>(worker)].operand);
    const std::int64_t first = task.segment->first;
    dot_tile({args.x.dtype, a, in, task.count, in, x + first * x_stride, x_stride,
              task.segment->count, v.at(first, task.module) + task.begin, v.row_stride});
  });
}

std::int32_t inner_of(const LoraArgs& args, const LoraMatrix& matrix) {
  return static_cast<std::int32_t>(lora_inner(matrix.rank, matrix.b_stride, args.x.dtype));
}

// Sets the elements of v by which biases are multiplied.
void set_bias_terms(const LoraArgs& args, const InnerRows& v) {
  if (!args.adds_bias) return;  // zero
  for (std::int32_t s = 0; s < args.num_segments; ++s) {
    const LoraSegment& segment = args.segments[s];
    if (segment.count == 0) continue;
    for (std::int32_t m = 0; m < args.num_modules; ++m) {
      const LoraMatrix& matrix = matrix_of(args, segment, m);
      const std::int32_t inner = inner_of(args, matrix);
      if (matrix.rank == 0 || inner == matrix.rank) continue;
      for (std::int32_t r = 0; r < segment.count; ++r) v.at(segment.first + r, m)[inner - 1] = 1;
    }
  }
}

// Adds v B^T to y.
void expand(OpContext& context, const LoraArgs& args, const InnerRows& v) {
  const auto size = static_cast<std::int64_t>(size_of(args.x.dtype));
  const std::vector<Task> tasks = cut(
      args, 32 << 10, [&](const LoraMatrix&, std::int32_t m) { return args.out[m].cols(); },
      [](const LoraMatrix& matrix) { return std::int64_t{matrix.b_stride}; });
  const auto num_tasks = static_cast<std::int64_t>(tasks.size());
  context.for_each(num_tasks, num_tasks * (16 << 10), [&](std::int64_t i, int worker) {
    const Task& task = tasks[static_cast<std::size_t>(i)];
    const TensorView& out = args.out[task.module];
    const std::int64_t b_stride = task.matrix->b_stride;
    const std::byte* b =
        weights_at(args.pages, task.segment->slot, task.matrix->b,
                   (args.first_column + task.begin) * b_stride * size, task.count * b_stride * size,
                   context.workers[static_cast<std::size_t>(worker)].operand);
    const std::int64_t first = task.segment->first;
    constexpr std::int64_t kRows = 64;
    float* acc = context.workers[static_cast<std::size_t>(worker)].tile.get<float>(
        static_cast<std::size_t>(kRows * task.count));
    for (std::int64_t r = 0; r < task.segment->count; r += kRows) {
      const std::int64_t block = std::min<std::int64_t>(kRows, task.segment->count - r);
      dot_tile({args.x.dtype, b, b_stride, task.count, inner_of(args, *task.matrix),
                v.at(first + r, task.module), v.row_stride, block, acc, task.count});
      for (std::int64_t j = 0; j < block; ++j) {
        std::byte* y = out.row_bytes(args.rows[first + r + j]) +
                       task.begin * static_cast<std::int64_t>(size_of(out.dtype));
        store_row({acc + j * task.count, task.count, out.dtype, nullptr, out.dtype, y, true});
      }
    }
  });
}

// Used by the halves: calls body(the operation's v, this v, the number of floats) for every piece
// of every row and module.
template <typename Body>
void for_each_piece(const LoraArgs& args, const InnerRows& v, const Body& body) {
  const std::int32_t shares = args.part == LoraPart::shrink ? 1 : args.num_shares;
  const std::int64_t width = args.v.cols() / (std::int64_t{args.num_modules} * shares);
  for (std::int32_t s = 0; s < args.num_segments; ++s) {
    const LoraSegment& segment = args.segments[s];
    for (std::int32_t n = segment.first; n < segment.first + segment.count; ++n) {
      auto* const row = reinterpret_cast<float*>(args.v.row_bytes(args.rows[n]));
      for (std::int32_t m = 0; m < args.num_modules; ++m) {
        const LoraMatrix& matrix = matrix_of(args, segment, m);
        const std::int32_t each = lora_share(matrix.rank, args.num_shares);
        const std::int32_t ranks = ranks_of(args, matrix).count;
        for (std::int32_t r = 0; r < ranks; r += each) {
          const std::int32_t share = r / each;
          body(row + (share * args.num_modules + m) * width, v.at(n, m) + r,
               static_cast<std::size_t>(std::min(each, ranks - r)));
        }
      }
    }
  }
}

// Calls body(segment, its matrix, n) for each row n, of LoraArgs::rows, whose adapter has the one
// module.
template <typename Body>
void for_each_adapted_row(const LoraArgs& args, const Body& body) {
  for (std::int32_t s = 0; s < args.num_segments; ++s) {
    const LoraSegment& segment = args.segments[s];
    if (segment.count == 0) continue;
    const LoraMatrix& matrix = matrix_of(args, segment, 0);
    if (matrix.rank == 0) continue;
    for (std::int32_t n = 0; n < segment.count; ++n) body(segment, matrix, segment.first + n);
  }
}

std::int64_t id_of(const LoraArgs& args, std::int32_t row) {
  const std::int32_t id = args.ids[row];
  TANDEM_CHECK(id >= 0 && id < args.x.cols(), "id {} of {}", id, args.x.cols());
  return id;
}

// One share of v = A[:, id], scaled.
void shrink_ids(OpContext& context, const LoraArgs& args) {
  const auto size = static_cast<std::int64_t>(size_of(args.x.dtype));
  float* const value = context.rows.get<float>(static_cast<std::size_t>(padded(1)));
  for_each_adapted_row(
      args, [&](const LoraSegment& segment, const LoraMatrix& matrix, std::int32_t n) {
        const std::int32_t row = args.rows[n];
        const std::int64_t id = id_of(args, row);
        auto* const v = reinterpret_cast<float*>(args.v.row_bytes(row));
        const RankRange ranks = ranks_of(args, matrix);
        for (std::int32_t r = 0; r < ranks.count; ++r) {
          const std::int64_t at = (std::int64_t{ranks.first + r} * args.x.cols() + id) * size;
          const std::byte* const a = weights_at(args.pages, segment.slot, matrix.a, at, size,
                                                context.workers.front().operand);
          widen_row(args.x.dtype, a, 1, args.id_scale, value);
          v[r] = *value;
        }
      });
}

// out = B[id], scaled.
void replace_ids(OpContext& context, const LoraArgs& args) {
  const auto size = static_cast<std::int64_t>(size_of(args.x.dtype));
  const TensorView& out = args.out[0];
  float* const values = context.rows.get<float>(static_cast<std::size_t>(padded(out.cols())));
  for_each_adapted_row(
      args, [&](const LoraSegment& segment, const LoraMatrix& matrix, std::int32_t n) {
        TANDEM_CHECK(matrix.rank == out.cols(), "{} columns for {}", matrix.rank, to_string(out));
        const std::int32_t row = args.rows[n];
        if (args.ids[row] >= args.x.cols()) return;
        const std::int64_t stride = matrix.b_stride * size;
        const std::byte* const b =
            weights_at(args.pages, segment.slot, matrix.b, id_of(args, row) * stride,
                       matrix.rank * size, context.workers.front().operand);
        widen_row(args.x.dtype, b, matrix.rank, args.id_scale, values);
        store_row({values, out.cols(), out.dtype, nullptr, out.dtype, out.row_bytes(row), false});
      });
}

// out = x B^T: expand() of x itself, to rows of biases or zeros.
void replace(OpContext& context, const LoraArgs& args) {
  const std::int64_t in = args.x.cols();
  const std::int64_t stride = padded(in);
  float* const x = context.rows.get<float>(static_cast<std::size_t>(args.num_rows * stride));
  for_each_adapted_row(args, [&](const LoraSegment&, const LoraMatrix& matrix, std::int32_t n) {
    TANDEM_CHECK(matrix.rank == in, "a matrix of {} columns for {}", matrix.rank, in);
    const std::int32_t row = args.rows[n];
    const TensorView& out = args.out[0];
    std::fill_n(x + n * stride, stride, 0.0F);
    widen_row(args.x.dtype, args.x.row_bytes(row), in, 1.0F, x + n * stride);
    if (const TensorView& bias = args.base_bias[0]; bias.rank != 0) {
      convert(bias.dtype, bias.data, out.dtype, out.row_bytes(row),
              static_cast<std::size_t>(out.cols()));
      return;
    }
    std::fill_n(out.row_bytes(row), static_cast<std::size_t>(out.cols()) * size_of(out.dtype),
                std::byte{0});
  });
  LoraArgs whole = args;
  whole.max_rank = static_cast<std::int32_t>(in);
  expand(context, whole, {x, stride, stride});
}

// The ids of the tokens for which the adapter has rows.
std::span<const std::int32_t> tokens_of(OpContext& context, const LoraArgs& args,
                                        const LoraSegment& segment, const LoraMatrix& matrix) {
  const std::byte* const ids =
      weights_at(args.pages, segment.slot, matrix.b, 0,
                 matrix.rank * std::int64_t{sizeof(std::int32_t)}, context.workers.front().operand);
  return {reinterpret_cast<const std::int32_t*>(ids), static_cast<std::size_t>(matrix.rank)};
}

// out = A[j], scaled, in rows of the token of A[j].
void replace_token_rows(OpContext& context, const LoraArgs& args) {
  const TensorView& out = args.out[0];
  const std::int64_t bytes = out.cols() * static_cast<std::int64_t>(size_of(args.x.dtype));
  float* const values = context.rows.get<float>(static_cast<std::size_t>(padded(out.cols())));
  for_each_adapted_row(
      args, [&](const LoraSegment& segment, const LoraMatrix& matrix, std::int32_t n) {
        const std::int32_t row = args.rows[n];
        const auto ids = tokens_of(context, args, segment, matrix);
        const auto found = std::ranges::lower_bound(ids, args.ids[row]);
        if (found == ids.end() || *found != args.ids[row]) return;
        const std::byte* const a =
            weights_at(args.pages, segment.slot, matrix.a, (found - ids.begin()) * bytes, bytes,
                       context.workers.front().operand);
        widen_row(args.x.dtype, a, out.cols(), args.id_scale, values);
        store_row({values, out.cols(), out.dtype, nullptr, out.dtype, out.row_bytes(row), false});
      });
}

// out = x A^T, in the columns of the tokens.
void replace_token_columns(OpContext& context, const LoraArgs& args) {
  LoraArgs own = args;
  own.max_rank = 0;
  for_each_adapted_row(args, [&](const LoraSegment&, const LoraMatrix& matrix, std::int32_t) {
    own.max_rank = std::max(own.max_rank, matrix.rank);
  });
  const std::int64_t in = args.x.cols();
  const std::int64_t x_stride = padded(in);
  const std::int64_t v_stride = padded(own.max_rank);
  float* const x =
      context.rows.get<float>(static_cast<std::size_t>(args.num_rows * (x_stride + v_stride)));
  const InnerRows v{x + args.num_rows * x_stride, v_stride, v_stride};
  for_each_adapted_row(args, [&](const LoraSegment&, const LoraMatrix&, std::int32_t n) {
    widen_row(args.x.dtype, args.x.row_bytes(args.rows[n]), in, 1.0F, x + n * x_stride);
  });
  shrink(context, own, x, x_stride, v);
  const TensorView& out = args.out[0];
  for_each_adapted_row(args,
                       [&](const LoraSegment& segment, const LoraMatrix& matrix, std::int32_t n) {
                         auto* const y = reinterpret_cast<float*>(out.row_bytes(args.rows[n]));
                         const float* value = v.at(n, 0);
                         for (const std::int32_t id : tokens_of(context, args, segment, matrix)) {
                           // The file may not be proven yet.
                           if (id >= 0 && id < out.cols()) y[id] = *value;
                           ++value;
                         }
                       });
}

// out += own - base.
void replace_biases(OpContext& context, const LoraArgs& args) {
  for (std::int32_t m = 0; m < args.num_modules; ++m) {
    const TensorView& out = args.out[m];
    const TensorView& base = args.base_bias[m];
    const auto columns = static_cast<std::size_t>(out.cols());
    float* const change = context.rows.get<float>(columns);
    LoraArgs one = args;
    one.table = args.table + m;
    for_each_adapted_row(
        one, [&](const LoraSegment& segment, const LoraMatrix& matrix, std::int32_t n) {
          const auto* const own = reinterpret_cast<const float*>(weights_at(
              args.pages, segment.slot, matrix.b, 0, out.cols() * std::int64_t{sizeof(float)},
              context.workers.front().operand));
          if (base.rank == 0) {
            std::fill_n(change, columns, 0.0F);
          } else {
            convert(base.dtype, base.data, DType::f32, change, columns);
          }
          std::transform(own, own + columns, change, change, std::minus<>());
          store_row({change, out.cols(), out.dtype, nullptr, out.dtype, out.row_bytes(args.rows[n]),
                     true});
        });
  }
}

}  // namespace

void lora(OpContext& context, const LoraArgs& args) {
  if (args.num_rows == 0 || args.num_segments == 0 || args.max_rank == 0) return;
  if (args.part == LoraPart::biases) return replace_biases(context, args);
  if (args.ids != nullptr && args.part == LoraPart::shrink) return shrink_ids(context, args);
  if (args.part == LoraPart::replace) {
    return args.ids != nullptr ? replace_ids(context, args) : replace(context, args);
  }
  if (args.part == LoraPart::tokens) {
    return args.ids != nullptr ? replace_token_rows(context, args)
                               : replace_token_columns(context, args);
  }
  const std::int64_t in = args.part == LoraPart::expand ? 0 : args.x.cols();
  const std::int64_t x_stride = padded(in);
  const std::int64_t rank_stride = padded(args.max_rank + lora_group(args.x.dtype));
  const std::int64_t v_stride = rank_stride * args.num_modules;
  const std::int64_t rows = args.num_rows;
  float* x = context.rows.get<float>(static_cast<std::size_t>(rows * (x_stride + v_stride)));
  const InnerRows v{x + rows * x_stride, rank_stride, v_stride};
  context.for_each(rows, rows * (x_stride + v_stride) * 4, [&](std::int64_t i, int) {
    const std::int32_t row = args.rows[i];
    TANDEM_CHECK(row >= 0 && row < args.x.rows(), "row {} of {}", row, args.x.rows());
    if (in > 0) widen_row(args.x.dtype, args.x.row_bytes(row), in, 1.0F, x + i * x_stride);
    std::fill_n(v.at(i, 0), v_stride, 0.0F);
  });
  if (args.part == LoraPart::expand) {
    for_each_piece(args, v, [](const float* given, float* own, std::size_t count) {
      std::copy_n(given, count, own);
    });
  } else {
    shrink(context, args, x, x_stride, v);
  }
  if (args.part == LoraPart::shrink) {
    for_each_piece(args, v, [](float* given, const float* own, std::size_t count) {
      std::copy_n(own, count, given);
    });
  } else {
    set_bias_terms(args, v);
    expand(context, args, v);
  }
}

}  // namespace tandem::host
