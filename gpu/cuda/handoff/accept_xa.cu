// out[m][rows[t]][c] += sum_r v[t][r] B[c][r] for the groups whose v the accept kernel pulled into
// the scratch (AcceptArgs in gpu/ops.h, ticket cpu_xa).
//
// Grid: columns in pieces of kThreads x groups, from the job's bounds; blocks of groups that the
// step does not have exit at once. A thread owns a column: it reads its row of B 16 bytes at a
// time, once for kRows rows of v, which lie in shared memory. Bound by reading B.
#include <algorithm>

#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/rows.cuh"
#include "gpu/cuda/handoff/answers.cuh"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 16;
constexpr int kRanks = 512;  // of v that are in shared memory at once

struct XaShape {
  AcceptOutput out[LoraArgs::kMaxModules];
  std::int32_t first_block[LoraArgs::kMaxModules];  // by module
  std::int64_t v_width;
};

__device__ __forceinline__ const std::byte* weight_at(const LoraPages& pages, std::int32_t slot,
                                                      std::uint64_t byte) {
  if (pages.base == nullptr) return reinterpret_cast<const std::byte*>(byte);
  const auto id = static_cast<std::uint64_t>(
      pages.ids[slot * pages.slot_stride + static_cast<std::int64_t>(byte >> pages.shift)]);
  return pages.base + (id << pages.shift) + (byte & ((std::uint64_t{1} << pages.shift) - 1));
}

template <typename T, typename Out>
__global__ void __launch_bounds__(kThreads)
    add_vb(const __grid_constant__ AcceptArgs a, const __grid_constant__ XaShape shape,
           const float* scratch_v) {
  constexpr int kWide = Vec16<T>::kSize;
  __shared__ __align__(16) float v[kRows][kRanks];
  const auto g = static_cast<std::int32_t>(blockIdx.y);
  const auto ticket = static_cast<Ticket>(a.tickets[g]);
  const JobOfBlock job(a, g);
  const GroupDescriptor descriptor(job.descriptor, g);
  if (ticket != Ticket::cpu_xa) return;
  if (a.timed_out[g] != 0) return;  // its v is incomplete
  const auto block = static_cast<std::int32_t>(blockIdx.x);
  std::int32_t m = 0;
  while (m + 1 < a.num_modules && block >= shape.first_block[m + 1]) ++m;
  const LoraSegment segment = a.segments[job.group.segment];
  std::int32_t columns = 0;  // all columns of v
  std::int32_t column = 0;   // this module's first one
  for (std::int32_t i = 0; i < a.num_modules; ++i) {
    if (i == m) column = columns;
    columns += rank_of(a, descriptor, segment.slot, i);
  }
  const std::int32_t rank = rank_of(a, descriptor, segment.slot, m);
  if (rank == 0) return;
  const LoraMatrix matrix = a.table[segment.slot * a.slot_stride + m];
  const AcceptOutput& out = shape.out[m];
  const std::int64_t o = std::int64_t{block - shape.first_block[m]} * kThreads + threadIdx.x;
  const std::uint64_t b_at = matrix.b + static_cast<std::uint64_t>(o) *
                                            static_cast<std::uint64_t>(matrix.b_stride) * sizeof(T);
  const bool wide = matrix.b_stride % kWide == 0 && matrix.b % 16 == 0;
  const std::int32_t padded = (rank + kWide - 1) / kWide * kWide;  // columns past rank are zeros
  const float* from = scratch_v + rows_before(a, g) * shape.v_width + column;
  const bool has_bias = matrix.b_stride > padded && o < out.cols;
  const float bias =
      has_bias ? to_float(*reinterpret_cast<const T*>(weight_at(
                     a.pages, segment.slot, b_at + static_cast<std::uint64_t>(padded) * sizeof(T))))
               : 0.0F;
  for (std::int32_t t0 = 0; t0 < segment.count; t0 += kRows) {
    const std::int32_t rows = min(kRows, segment.count - t0);
    float sum[kRows] = {};
    for (std::int32_t r0 = 0; r0 < padded; r0 += kRanks) {
      const std::int32_t ranks = min(kRanks, padded - r0);
      __syncthreads();
      for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < rows * ranks;
           i += kThreads) {
        const std::int32_t t = i / ranks;
        const std::int32_t r = i - t * ranks;
        v[t][r] = r0 + r < rank ? from[std::int64_t{t0 + t} * columns + r0 + r] : 0.0F;
      }
      __syncthreads();
      if (o >= out.cols) continue;
#pragma unroll 4
      for (std::int32_t r = 0; r < ranks; r += kWide) {
        Vec16<T> b;
        const std::uint64_t at = b_at + static_cast<std::uint64_t>(r0 + r) * sizeof(T);
        if (wide) {
          b = *reinterpret_cast<const Vec16<T>*>(weight_at(a.pages, segment.slot, at));
        } else {
#pragma unroll
          for (int i = 0; i < kWide; ++i) {
            b.element[i] = r0 + r + i < rank ? *reinterpret_cast<const T*>(weight_at(
                                                   a.pages, segment.slot, at + i * sizeof(T)))
                                             : from_float<T>(0.0F);
          }
        }
#pragma unroll
        for (int t = 0; t < kRows; ++t) {
          if (t >= rows) break;
#pragma unroll
          for (int i = 0; i < kWide; ++i) sum[t] += v[t][r + i] * to_float(b.element[i]);
        }
      }
    }
    if (o >= out.cols) continue;
#pragma unroll
    for (int t = 0; t < kRows; ++t) {
      if (t >= rows) break;
      const std::int32_t row = a.rows[segment.first + t0 + t];
      Out* y = static_cast<Out*>(out.data) + row * out.stride + o;
      *y = from_float<Out>(to_float(*y) + sum[t] + bias);
    }
  }
}

template <typename T, typename Out>
Status launch(const AcceptArgs& args, const float* v, cudaStream_t stream) {
  XaShape shape{};
  std::int32_t blocks = 0;
  for (std::int32_t m = 0; m < args.num_modules; ++m) {
    shape.out[m] = output_of(args.out[m]);
    shape.first_block[m] = blocks;
    blocks += static_cast<std::int32_t>(ceil_div(args.out[m].cols(), kThreads));
  }
  for (const MailboxView& mailbox : args.mailboxes) {
    shape.v_width = std::max(shape.v_width, mailbox.max_v);
  }
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(args.num_groups));
  // No overlap: page ids and tables may arrive, with the load, after earlier kernels have begun.
  return launch_kernel("accept", {.grid = grid, .block = dim3(kThreads)}, stream, add_vb<T, Out>,
                       args, shape, v);
}

}  // namespace

Status launch_accept_xa(const AcceptArgs& args, const float* v, cudaStream_t stream) {
  return dispatch_dtype(args.dtype, [&](auto element) {
    using T = typename decltype(element)::type;
    return args.out[0].dtype == args.dtype ? launch<T, T>(args, v, stream)
                                           : launch<T, float>(args, v, stream);
  });
}

}  // namespace tandem::cuda
