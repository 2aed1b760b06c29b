// y = x w^T. For bf16 on a CPU with an instruction for bf16 pairs but without AMX: our own
// products, for any number of rows. Otherwise, few rows use our own dot-product tiles over floats,
// bound by reading w once. More rows use oneDNN with AMX for bf16; without AMX each thread widens a
// slice of w to float, which is 1.7 times as fast as oneDNN's bf16 on a CPU that only has AVX-512
// (290 against 166 GFLOP/s on two cores), so widening pays for itself from about a hundred rows.
//
// Packed weights: few rows use products that decode w in registers (dot_packed). Others unpack a
// slice of w, to float or rounded to bf16, whichever is multiplied faster, and multiply it as a
// dense one.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "gpu/host/kernels/dot_bf16.h"
#include "gpu/host/kernels/kernels.h"
#include "gpu/host/kernels/packed.h"
#include "gpu/host/ops/operations.h"
#include "gpu/host/ops/row_ranges.h"

namespace tandem::host {
namespace {

constexpr std::int64_t kFewRows = 48;    // up to this number our tiles are faster
constexpr std::int64_t kRowBlock = 512;  // limits the float copy of x
// Up to this number of rows it is faster to decode packed weights for each kMaxPackedRows of them.
constexpr std::int64_t kFewPackedRows = 16;

void store_tile(const GemmArgs& args, const float* acc, std::int64_t acc_stride,
                std::int64_t first_row, std::int64_t rows, std::int64_t first_out,
                std::int64_t outputs) {
  const auto out_size = static_cast<std::int64_t>(size_of(args.y.dtype));
  const bool biased = args.bias.rank > 0;
  const void* bias = nullptr;
  if (biased) {
    bias = static_cast<const std::byte*>(args.bias.data) +
           first_out * static_cast<std::int64_t>(size_of(args.bias.dtype));
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    store_row({acc + r * acc_stride, outputs, args.bias.dtype, bias, args.y.dtype,
               args.y.row_bytes(first_row + r) + first_out * out_size, args.accumulate});
  }
}

// Rows [first, first + count) of w in `dtype`: where they lie, or dense in `scratch`. A dense w of
// another type can become f32 alone.
const void* weight_rows(const Weight& w, std::int64_t first, std::int64_t count, DType dtype,
                        AlignedBytes& scratch) {
  if (w.is_dense() && w.data.dtype == dtype) return w.data.row_bytes(first);
  TANDEM_CHECK(!w.is_dense() || dtype == DType::f32, "{} as {}", to_string(w.data),
               to_string(dtype));
  const std::int64_t k = w.cols();
  std::byte* const rows = scratch.get(static_cast<std::size_t>(padded(count * k)) * size_of(dtype));
  if (w.is_dense()) {
    widen_row(w.data.dtype, w.data.row_bytes(first), count * k, 1.0F,
              reinterpret_cast<float*>(rows));
  } else {
    unpack_rows(w, first, count, dtype, rows, k);
  }
  return rows;
}

// Returns x's rows as floats with zeros behind them; the rows from `rows` to `padded_rows` are
// zero.
float* widen_rows(OpContext& context, const TensorView& x, std::int64_t first, std::int64_t rows,
                  std::int64_t padded_rows, std::int64_t stride) {
  const std::int64_t k = x.cols();
  float* widened = context.rows.get<float>(static_cast<std::size_t>(padded_rows * stride));
  context.for_each(padded_rows, padded_rows * stride * 4, [&](std::int64_t r, int) {
    float* target = widened + r * stride;
    if (r >= rows) {
      std::fill_n(target, stride, 0.0F);
    } else if (stride >= padded(k)) {
      widen_row(x.dtype, x.row_bytes(first + r), k, 1.0F, target);
      std::fill(target + padded(k), target + stride, 0.0F);
    } else {
      convert(x.dtype, x.row_bytes(first + r), DType::f32, target, static_cast<std::size_t>(k));
    }
  });
  return widened;
}

// The outputs of a task, which reads about 256 KB of weights; but each thread gets a few tasks for
// balance.
std::int64_t outputs_of_task(const OpContext& context, std::int64_t outputs,
                             std::int64_t row_bytes) {
  const std::int64_t fair = ceil_div(outputs, 4 * context.pool->num_threads());
  return std::clamp<std::int64_t>((256 << 10) / row_bytes, 1, std::max<std::int64_t>(fair, 1));
}

void gemm_few_rows(OpContext& context, const GemmArgs& args) {
  const std::int64_t rows = args.x.rows();
  const std::int64_t k = args.x.cols();
  const std::int64_t outputs = args.w.rows();
  const std::int64_t x_stride = padded(k);
  const float* x = widen_rows(context, args.x, 0, rows, rows, x_stride);
  const DType dtype = args.w.is_dense() ? args.w.data.dtype : DType::f32;
  const auto row_bytes = std::max<std::int64_t>(1, k * static_cast<std::int64_t>(size_of(dtype)));
  const std::int64_t block = outputs_of_task(context, outputs, row_bytes);
  const std::int64_t rounded = ceil_div(block, 15) * 15;  // no remainder for either tile width
  context.for_each(ceil_div(outputs, rounded), outputs * row_bytes * rows,
                   [&](std::int64_t task, int worker) {
                     WorkerScratch& scratch = context.workers[static_cast<std::size_t>(worker)];
                     const std::int64_t begin = task * rounded;
                     const std::int64_t count = std::min(rounded, outputs - begin);
                     float* acc = scratch.tile.get<float>(static_cast<std::size_t>(rows * count));
                     dot_tile({dtype, weight_rows(args.w, begin, count, dtype, scratch.operand), k,
                               count, k, x, x_stride, rows, acc, count});
                     store_tile(args, acc, count, 0, rows, begin, count);
                   });
}

void gemm_packed(OpContext& context, const GemmArgs& args) {
  const std::int64_t rows = args.x.rows();
  const std::int64_t outputs = args.w.rows();
  const std::int64_t x_rows = rows - rows % kMaxPackedRows + rows_for_packed(rows % kMaxPackedRows);
  const std::int64_t x_stride = padded_for_packed(args.x.cols());
  float* const x = widen_rows(context, args.x, 0, rows, x_rows, x_stride);
  for (std::int64_t r = 0; r < rows; ++r) arrange_row(args.w, x + r * x_stride);
  const std::int64_t row_bytes =
      args.w.form.low_bytes(args.x.cols()) + args.w.form.high_bytes(args.x.cols());
  const std::int64_t block = outputs_of_task(context, outputs, row_bytes);
  context.for_each(ceil_div(outputs, block), outputs * row_bytes * rows,
                   [&](std::int64_t task, int worker) {
                     const std::int64_t begin = task * block;
                     const std::int64_t count = std::min(block, outputs - begin);
                     float* acc = context.workers[static_cast<std::size_t>(worker)].tile.get<float>(
                         static_cast<std::size_t>(rows * count));
                     for (std::int64_t r = 0; r < rows; r += kMaxPackedRows) {
                       dot_packed({args.w, begin, count, x + r * x_stride, x_stride,
                                   std::min(kMaxPackedRows, rows - r), acc + r * count, count});
                     }
                     store_tile(args, acc, count, 0, rows, begin, count);
                   });
}

// Rows are padded so that prompts of any length share a few compiled primitives.
std::int64_t bucket_of(std::int64_t rows) {
  return rows <= 64 ? ceil_div(rows, 16) * 16 : ceil_div(rows, 64) * 64;
}

void gemm_many_rows(OpContext& context, const GemmArgs& args) {
  const std::int64_t k = args.x.cols();
  const std::int64_t outputs = args.w.rows();
  const bool native = context.native_bf16 && args.x.dtype == DType::bf16;
  const DType dtype = native ? DType::bf16 : DType::f32;
  // The size of a slice of float weights that stays in the L2 cache together with a block of x.
  const std::int64_t slice = std::clamp<std::int64_t>(
      (std::int64_t{1} << 18) / std::max<std::int64_t>(k, 1) / 16 * 16, 16, 128);
  for (std::int64_t first = 0; first < args.x.rows(); first += kRowBlock) {
    const std::int64_t rows = std::min(kRowBlock, args.x.rows() - first);
    const std::int64_t m = bucket_of(rows);
    const void* x = nullptr;
    if (native) {
      auto* copy = context.rows.get<bf16>(static_cast<std::size_t>(m * k));
      for (std::int64_t r = 0; r < m; ++r) {
        if (r < rows) {
          std::memcpy(copy + r * k, args.x.row_bytes(first + r), static_cast<std::size_t>(k) * 2);
        } else {
          std::fill_n(copy + r * k, k, bf16{0});
        }
      }
      x = copy;
    } else {
      x = widen_rows(context, args.x, first, rows, m, k);
    }
    context.pool->parallel_for(ceil_div(outputs, slice), [&](std::int64_t task, int worker) {
      WorkerScratch& scratch = context.workers[static_cast<std::size_t>(worker)];
      const std::int64_t begin = task * slice;
      const std::int64_t count = std::min(slice, outputs - begin);
      const void* w = weight_rows(args.w, begin, count, dtype, scratch.operand);
      float* acc = scratch.tile.get<float>(static_cast<std::size_t>(m * count));
      context.matmuls->run({dtype, m, count, k}, x, w, acc, scratch.matmul);
      store_tile(args, acc, count, first, rows, begin, count);
    });
  }
}

void gemm_bf16(OpContext& context, const GemmArgs& args) {
  const std::int64_t k = args.x.cols();
  const std::int64_t outputs = args.w.rows();
  // A slice of w stays in the L2 cache together with a block of x; each thread gets a few for
  // balance.
  const std::int64_t fitting = (std::int64_t{1} << 18) / std::max<std::int64_t>(k, 1);
  const std::int64_t fair = ceil_div(outputs, 3 * context.pool->num_threads());
  const std::int64_t slice = std::clamp<std::int64_t>(std::min(fitting, fair) / 6 * 6, 6, 96);
  for (std::int64_t first = 0; first < args.x.rows(); first += kRowBlock) {
    const std::int64_t rows = std::min(kRowBlock, args.x.rows() - first);
    const std::int64_t bytes = (outputs + rows) * k * static_cast<std::int64_t>(sizeof(bf16));
    context.for_each(ceil_div(outputs, slice), bytes, [&](std::int64_t task, int worker) {
      const std::int64_t begin = task * slice;
      const std::int64_t count = std::min(slice, outputs - begin);
      WorkerScratch& scratch = context.workers[static_cast<std::size_t>(worker)];
      const void* w = weight_rows(args.w, begin, count, DType::bf16, scratch.operand);
      float* acc = scratch.tile.get<float>(static_cast<std::size_t>(rows * count));
      dot_bf16({static_cast<const bf16*>(w), k, count, k,
                reinterpret_cast<const bf16*>(args.x.row_bytes(first)), args.x.stride[0], rows, acc,
                count});
      store_tile(args, acc, count, first, rows, begin, count);
    });
  }
}

// x with its columns in the order of w's places.
TensorView in_order(OpContext& context, const TensorView& x, const std::int32_t* order) {
  const std::int64_t k = x.cols();
  TensorView ordered(
      context.ordered.get(static_cast<std::size_t>(x.num_elements()) * size_of(x.dtype)), x.dtype,
      {x.rows(), k});
  const auto gather = [&](const auto* source, auto* target) {
    for (std::int64_t i = 0; i < k; ++i) target[i] = source[order[i]];
  };
  context.for_each(x.rows(), bytes_of(ordered), [&](std::int64_t r, int) {
    if (x.dtype == DType::f32) {
      gather(reinterpret_cast<const float*>(x.row_bytes(r)),
             reinterpret_cast<float*>(ordered.row_bytes(r)));
    } else {
      gather(reinterpret_cast<const std::uint16_t*>(x.row_bytes(r)),
             reinterpret_cast<std::uint16_t*>(ordered.row_bytes(r)));
    }
  });
  return ordered;
}

}  // namespace

void gemm(OpContext& context, const GemmArgs& given) {
  if (given.x.rows() == 0 || given.w.rows() == 0) return;
  GemmArgs args = given;
  if (args.w.order != nullptr) args.x = in_order(context, args.x, args.w.order);
  const bool is_dense = args.w.is_dense();
  const bool pairs = !context.native_bf16 && args.x.dtype == DType::bf16 &&
                     (is_dense ? can_dot_bf16() : dot_bf16_is_faster());
  if (!is_dense && args.x.rows() <= kFewPackedRows && args.x.cols() > 0) {
    gemm_packed(context, args);
  } else if (pairs) {
    gemm_bf16(context, args);
  } else if (args.x.rows() <= kFewRows || args.x.cols() == 0) {
    gemm_few_rows(context, args);
  } else {
    gemm_many_rows(context, args);
  }
}

}  // namespace tandem::host
