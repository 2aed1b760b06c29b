// y = x w^T. For bf16 on a CPU with an instruction for bf16 pairs but without AMX: our own
// products, for any number of rows. Otherwise, few rows use our own dot-product tiles over floats,
// bound by reading w once. More rows use oneDNN with AMX for bf16; without AMX each thread widens a
// slice of w to float, which is 1.7 times as fast as oneDNN's bf16 on a CPU that only has AVX-512
// (290 against 166 GFLOP/s on two cores), so widening pays for itself from about a hundred rows.
#include <algorithm>
#include <cstring>

#include "gpu/host/kernels/dot_bf16.h"
#include "gpu/host/kernels/kernels.h"
#include "gpu/host/ops/operations.h"

namespace tandem::host {
namespace {

constexpr std::int64_t kFewRows = 48;    // up to this number our tiles are faster
constexpr std::int64_t kRowBlock = 512;  // limits the float copy of x

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

const std::byte* weight_row(const GemmArgs& args, std::int64_t out) {
  return args.w.data.row_bytes(out);
}

// Returns x's rows as padded floats; the rows from `rows` to `padded_rows` are zero.
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
    } else {
      convert(x.dtype, x.row_bytes(first + r), DType::f32, target, static_cast<std::size_t>(k));
    }
  });
  return widened;
}

void gemm_few_rows(OpContext& context, const GemmArgs& args) {
  const std::int64_t rows = args.x.rows();
  const std::int64_t k = args.x.cols();
  const std::int64_t outputs = args.w.rows();
  const std::int64_t x_stride = padded(k);
  const float* x = widen_rows(context, args.x, 0, rows, rows, x_stride);
  // A task reads about 256 KB of weights, but each thread gets a few tasks for balance.
  const auto row_bytes =
      std::max<std::int64_t>(1, k * static_cast<std::int64_t>(size_of(args.w.data.dtype)));
  const std::int64_t fair = ceil_div(outputs, 4 * context.pool->num_threads());
  const std::int64_t block =
      std::clamp<std::int64_t>((256 << 10) / row_bytes, 1, std::max<std::int64_t>(fair, 1));
  const std::int64_t rounded = ceil_div(block, 15) * 15;  // no remainder for either tile width
  context.for_each(ceil_div(outputs, rounded), outputs * row_bytes * rows,
                   [&](std::int64_t task, int worker) {
                     const std::int64_t begin = task * rounded;
                     const std::int64_t count = std::min(rounded, outputs - begin);
                     float* acc = context.workers[static_cast<std::size_t>(worker)].tile.get<float>(
                         static_cast<std::size_t>(rows * count));
                     dot_tile({args.w.data.dtype, weight_row(args, begin), k, count, k, x, x_stride,
                               rows, acc, count});
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
  const bool native = context.native_bf16 && args.w.data.dtype == DType::bf16;
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
      const void* w = weight_row(args, begin);
      if (!native && args.w.data.dtype != DType::f32) {
        float* widened = scratch.operand.get<float>(static_cast<std::size_t>(padded(slice * k)));
        widen_row(args.w.data.dtype, w, count * k, 1.0F, widened);
        w = widened;
      }
      float* acc = scratch.tile.get<float>(static_cast<std::size_t>(m * count));
      context.matmuls->run({native ? DType::bf16 : DType::f32, m, count, k}, x, w, acc,
                           scratch.matmul);
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
      float* acc = context.workers[static_cast<std::size_t>(worker)].tile.get<float>(
          static_cast<std::size_t>(rows * count));
      dot_bf16({reinterpret_cast<const bf16*>(weight_row(args, begin)), args.w.data.stride[0],
                count, k, reinterpret_cast<const bf16*>(args.x.row_bytes(first)), args.x.stride[0],
                rows, acc, count});
      store_tile(args, acc, count, first, rows, begin, count);
    });
  }
}

}  // namespace

void gemm(OpContext& context, const GemmArgs& args) {
  if (args.x.rows() == 0 || args.w.rows() == 0) return;
  const bool pairs = !context.native_bf16 && args.x.dtype == DType::bf16 &&
                     args.w.data.dtype == DType::bf16 && can_dot_bf16();
  if (pairs) {
    gemm_bf16(context, args);
  } else if (args.x.rows() <= kFewRows || args.x.cols() == 0) {
    gemm_few_rows(context, args);
  } else {
    gemm_many_rows(context, args);
  }
}

}  // namespace tandem::host
