// These kernels compute what adapters have in place of the base's (LoraArgs in gpu/ops.h: `ids`,
// replacing, and biases).
//
//   shrink by ids   v[t, r] = scale A[r, ids[t]]      one block per row; bound by latency
//   replace by ids  y[t] = scale B[ids[t]]            one block per row; bound by latency
//   tokens by ids   y[t] = scale A[j], id[j] = ids[t] one block per row; bound by latency: its
//                                                     threads search the ids alike
//   replace         y[t] = x[t] B^T + bias            one warp per two columns and a row, or per
//                                                     column and eight rows of a segment; bound by
//                                                     reading B, once for eight rows. The grid has
//                                                     one size for all steps, as those that are
//                                                     recorded hold segments without rows
//   tokens          y[t, id[j]] = x[t] A[j]^T         the same, for rows of A
//   biases          y[t] += own - bias                one block per row, module and piece of
//                                                     columns; bound by latency
//
// They start after the previous kernel has ended, so that all they read is there.
#include <algorithm>

#include "gpu/cuda/lora/kernels/outer.h"
#include "gpu/cuda/lora/kernels/plain_rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kWarps = kPlainThreads / 32;
constexpr int kRows = 8;               // that share a read of B
constexpr int kMaxColumnBlocks = 528;  // four on each of an H100's multiprocessors
constexpr int kMaxSegmentBlocks = 8;

template <bool kPaged>
__device__ int token_at(const WeightBytes<kPaged>& bytes, const LoraEntry& entry, int j) {
  const std::uint64_t at = entry.b + static_cast<std::uint64_t>(j) * sizeof(int);
  return *reinterpret_cast<const int*>(bytes.at(at));
}

// The number of tokens of the adapter below `id`.
template <bool kPaged>
__device__ int tokens_below(const WeightBytes<kPaged>& bytes, const LoraEntry& entry,
                            std::int64_t id) {
  int begin = 0;
  int end = entry.rank;
  while (begin < end) {
    const int middle = (begin + end) / 2;
    if (token_at(bytes, entry, middle) < id) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

template <typename T, typename Out, bool kPaged>
__global__ void __launch_bounds__(kPlainThreads)
    outer_ids(const __grid_constant__ LoraParams p, const __grid_constant__ OuterParams o) {
  const int position = static_cast<int>(blockIdx.x);
  const int slot = slot_of(p, position);
  if (slot < 0) return;
  const LoraEntry entry = entry_of(p, slot, 0);
  const WeightBytes<kPaged> bytes(p, slot);
  const std::int64_t row = row_of(p, position);
  const std::int64_t id = o.ids[row];
  if (o.part == OuterPart::shrink) {
    const int each = ranks_of_share(entry.rank, p.num_shares);
    const int first = min(p.share * each, entry.rank);
    const int ranks = min(each, entry.rank - first);
    for (int r = static_cast<int>(threadIdx.x); r < ranks; r += kPlainThreads) {
      const std::int64_t at = std::int64_t{first + r} * p.in + id;
      p.v[row * p.v_stride + r] =
          id < p.in ? o.id_scale * weight_at<T, kPaged>(bytes, entry.a, at) : 0.0F;
    }
    return;
  }
  Out* const y = static_cast<Out*>(p.out[0].data) + row * p.out[0].stride;
  if (o.part == OuterPart::tokens) {
    const int token = tokens_below(bytes, entry, id);
    if (token == entry.rank || token_at(bytes, entry, token) != id) return;
    for (int c = static_cast<int>(threadIdx.x); c < p.out[0].cols; c += kPlainThreads) {
      const std::int64_t at = std::int64_t{token} * p.out[0].cols + c;
      y[c] = from_float<Out>(o.id_scale * weight_at<T, kPaged>(bytes, entry.a, at));
    }
    return;
  }
  if (id >= p.in) return;
  const int columns = min(entry.rank, static_cast<int>(p.out[0].cols));
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += kPlainThreads) {
    const std::int64_t at = id * entry.b_stride + c;
    y[c] = from_float<Out>(o.id_scale * weight_at<T, kPaged>(bytes, entry.b, at));
  }
}

// Elements [i, i + 16 bytes) of a row that begins at byte `begin`; those past its end are
// undefined.
template <typename T, bool kPaged>
__device__ __forceinline__ void load_vector(const WeightBytes<kPaged>& bytes, std::uint64_t begin,
                                            bool aligned, int in, int i, T* to) {
  if (aligned) {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(
        bytes.at(begin + static_cast<std::uint64_t>(i) * sizeof(T)));
    return;
  }
#pragma unroll
  for (int k = 0; k < 16 / static_cast<int>(sizeof(T)); ++k) {
    const std::uint64_t at = begin + static_cast<std::uint64_t>(min(i + k, in - 1)) * sizeof(T);
    to[k] = *reinterpret_cast<const T*>(bytes.at(at));
  }
}

// The sums of x w over two rows w of `vectors` whole vectors, for a segment of one row, as those of
// decode steps mostly are. Two rows share the reads of x, and each lane has eight reads of them in
// flight.
template <typename T>
__device__ __forceinline__ void multiply_pair(const uint4* x, const uint4* const (&w)[2],
                                              int vectors, float (&sum)[2]) {
  constexpr int kVector = 16 / sizeof(T);
  constexpr int kAhead = 4;
  for (int base = static_cast<int>(threadIdx.x) % 32; base < vectors; base += kAhead * 32) {
    uint4 read[kAhead][2] = {};
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int i = base + ahead * 32;
      if (i >= vectors) continue;
      read[ahead][0] = __ldcs(w[0] + i);
      read[ahead][1] = __ldcs(w[1] + i);
    }
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int i = base + ahead * 32;
      if (i >= vectors) continue;
      const uint4 from = x[i];
      const T* const v = reinterpret_cast<const T*>(&from);
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        const float value = to_float(v[k]);
        sum[0] += value * to_float(reinterpret_cast<const T*>(&read[ahead][0])[k]);
        sum[1] += value * to_float(reinterpret_cast<const T*>(&read[ahead][1])[k]);
      }
    }
  }
}

// y[t, column] = x[t] w for the rows t of the segment, where w begins at byte `begin`. Rows of B
// begin at multiples of 16 bytes and are padded to them by zeros; those of A may do neither. 16
// aligned bytes lie in one chunk.
template <typename T, typename Out, bool kPaged>
__device__ void multiply_column(const LoraParams& p, const LoraRows& segment,
                                const WeightBytes<kPaged>& bytes, std::uint64_t begin, int column,
                                float bias) {
  constexpr int kVector = 16 / sizeof(T);
  constexpr int kAhead = 4;  // loads of B in flight for a lane
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool aligned = begin % 16 == 0;
  const T* const x = static_cast<const T*>(p.x);
  const bool x_aligned = reinterpret_cast<std::uint64_t>(x) % 16 == 0 &&
                         p.x_stride % kVector == 0 && p.in % kVector == 0;
  for (int first = 0; first < segment.count; first += kRows) {
    const int count = min(kRows, segment.count - first);
    std::int64_t row[kRows];
    float sum[kRows] = {};
    for (int j = 0; j < kRows; ++j) {
      row[j] = row_of(p, segment.first + first + min(j, count - 1));
    }
    for (int base = lane * kVector; base < p.in; base += kAhead * 32 * kVector) {
      alignas(16) T w[kAhead][kVector];
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ++ahead) {
        const int i = base + ahead * 32 * kVector;
        if (i < p.in) load_vector<T, kPaged>(bytes, begin, aligned, p.in, i, w[ahead]);
      }
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ++ahead) {
        const int i = base + ahead * 32 * kVector;
        if (i >= p.in) break;
#pragma unroll
        for (int j = 0; j < kRows; ++j) {
          if (j >= count) break;
          const T* const from = x + row[j] * p.x_stride + i;
          alignas(16) T v[kVector] = {};
          if (x_aligned) {
            *reinterpret_cast<uint4*>(v) = *reinterpret_cast<const uint4*>(from);
          } else {
#pragma unroll
            for (int k = 0; k < kVector; ++k) {
              if (i + k < p.in) v[k] = from[k];
            }
          }
#pragma unroll
          for (int k = 0; k < kVector; ++k) {
            if (i + k < p.in) sum[j] += to_float(w[ahead][k]) * to_float(v[k]);
          }
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      for (int step = 16; step > 0; step /= 2) sum[j] += __shfl_xor_sync(~0U, sum[j], step);
      if (lane == 0 && j < count) {
        static_cast<Out*>(p.out[0].data)[row[j] * p.out[0].stride + column] =
            from_float<Out>(sum[j] + bias);
      }
    }
  }
}

// Registers are bounded so that 32 warps of a multiprocessor read at once. Without a base bias, as
// heads are, a kernel has none to spare for it: 32 heads took 0.3 ms longer.
template <typename T, typename Out, bool kPaged, bool kBias>
__global__ void __launch_bounds__(kPlainThreads, 4)
    outer_product(const __grid_constant__ LoraParams p, const __grid_constant__ OuterParams o) {
  const bool by_token = o.part == OuterPart::tokens;
  const T* const biases = kBias ? static_cast<const T*>(o.base_bias[0]) : nullptr;
  constexpr int kVector = 16 / sizeof(T);
  const T* const x = static_cast<const T*>(p.x);
  const bool whole = p.in % kVector == 0 && p.x_stride % kVector == 0 &&
                     reinterpret_cast<std::uint64_t>(x) % 16 == 0;
  const int first =
      (static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32) * 2;
  const int step = static_cast<int>(gridDim.x) * kWarps * 2;
  for (int s = static_cast<int>(blockIdx.y); s < p.num_segments; s += static_cast<int>(gridDim.y)) {
    const LoraRows segment = p.segments[s];
    if (segment.count == 0) continue;
    const LoraEntry entry = entry_of(p, segment.slot, 0);
    if (entry.rank == 0) continue;
    const WeightBytes<kPaged> bytes(p, segment.slot);
    const int count = by_token ? entry.rank : static_cast<int>(p.out[0].cols);
    const std::int64_t row_bytes = std::int64_t{by_token ? p.in : entry.b_stride} * sizeof(T);
    const std::uint64_t rows = by_token ? entry.a : entry.b;
    const std::int64_t row = row_of(p, segment.first);
    for (int i = first; i < count; i += step) {
      const int pair = min(2, count - i);
      std::uint64_t begin[2];
      int column[2];
      const uint4* w[2] = {};
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int at = i + min(j, pair - 1);
        begin[j] = rows + static_cast<std::uint64_t>(at * row_bytes);
        column[j] = by_token ? token_at(bytes, entry, at) : at;
        // The ids of a file that is not proven yet may be any.
        if (column[j] >= p.out[0].cols) column[j] = -1;
        if (whole && segment.count == 1 && begin[j] % 16 == 0) {
          w[j] = reinterpret_cast<const uint4*>(
              bytes.run(begin[j], static_cast<unsigned>(p.in) * sizeof(T)));
        }
      }
      if (w[0] != nullptr && w[1] != nullptr) {
        float sum[2] = {};
        multiply_pair<T>(reinterpret_cast<const uint4*>(x + row * p.x_stride), w, p.in / kVector,
                         sum);
        for (int lanes = 16; lanes > 0; lanes /= 2) {
          sum[0] += __shfl_xor_sync(~0U, sum[0], lanes);
          sum[1] += __shfl_xor_sync(~0U, sum[1], lanes);
        }
        const int lane = static_cast<int>(threadIdx.x) % 32;
        const int to = lane == 0 ? column[0] : column[1];
        if (lane < pair && to >= 0) {
          const float bias = kBias ? to_float(biases[to]) : 0.0F;
          static_cast<Out*>(p.out[0].data)[row * p.out[0].stride + to] =
              from_float<Out>((lane == 0 ? sum[0] : sum[1]) + bias);
        }
        continue;
      }
      for (int j = 0; j < pair; ++j) {
        if (column[j] < 0) continue;
        const float bias = kBias ? to_float(biases[column[j]]) : 0.0F;
        multiply_column<T, Out, kPaged>(p, segment, bytes, begin[j], column[j], bias);
      }
    }
  }
}

template <typename T, typename Out, bool kPaged>
__global__ void __launch_bounds__(kPlainThreads)
    replace_biases(const __grid_constant__ LoraParams p, const __grid_constant__ OuterParams o) {
  const int position = static_cast<int>(blockIdx.x);
  const int which = static_cast<int>(blockIdx.z);
  const int slot = slot_of(p, position);
  if (slot < 0) return;
  const LoraEntry entry = entry_of(p, slot, which);
  const LoraOutput& out = p.out[which];
  const int c = static_cast<int>(blockIdx.y) * kPlainThreads + static_cast<int>(threadIdx.x);
  if (entry.rank == 0 || c >= out.cols) return;
  const WeightBytes<kPaged> bytes(p, slot);
  const T* const base = static_cast<const T*>(o.base_bias[which]);
  const float own = weight_at<float, kPaged>(bytes, entry.b, c);
  Out* const y = static_cast<Out*>(out.data) + row_of(p, position) * out.stride + c;
  *y = from_float<Out>(to_float(*y) + (own - (base == nullptr ? 0.0F : to_float(base[c]))));
}

template <typename T, typename Out, bool kPaged>
cudaError_t launch(const LoraParams& p, const OuterParams& o, cudaStream_t stream) {
  if (o.part == OuterPart::biases) {
    int columns = 0;
    for (int m = 0; m < p.num_modules; ++m) columns = std::max(columns, p.out[m].cols);
    const dim3 blocks(static_cast<unsigned>(p.num_rows),
                      static_cast<unsigned>((columns + kPlainThreads - 1) / kPlainThreads),
                      static_cast<unsigned>(p.num_modules));
    replace_biases<T, Out, kPaged><<<blocks, kPlainThreads, 0, stream>>>(p, o);
  } else if (o.ids != nullptr) {
    outer_ids<T, Out, kPaged>
        <<<static_cast<unsigned>(p.num_rows), kPlainThreads, 0, stream>>>(p, o);
  } else {
    const auto columns = static_cast<int>((p.out[0].cols + 2 * kWarps - 1) / (2 * kWarps));
    const dim3 blocks(static_cast<unsigned>(std::min(columns, kMaxColumnBlocks)),
                      static_cast<unsigned>(std::min(p.num_segments, kMaxSegmentBlocks)));
    auto* const kernel = o.base_bias[0] != nullptr ? outer_product<T, Out, kPaged, true>
                                                   : outer_product<T, Out, kPaged, false>;
    kernel<<<blocks, kPlainThreads, 0, stream>>>(p, o);
  }
  return cudaPeekAtLastError();
}

template <typename T, typename Out>
cudaError_t launch(const LoraParams& p, const OuterParams& o, cudaStream_t stream) {
  return p.page_base != nullptr ? launch<T, Out, true>(p, o, stream)
                                : launch<T, Out, false>(p, o, stream);
}

}  // namespace

cudaError_t enqueue_outer(const LoraParams& p, const OuterParams& o, cudaStream_t stream) {
  if (p.num_rows == 0 || p.num_segments == 0) return cudaSuccess;
  const bool wide = p.out_type == LoraType::f32;
  switch (p.type) {
    case LoraType::f16:
      return wide ? launch<__half, float>(p, o, stream) : launch<__half, __half>(p, o, stream);
    case LoraType::bf16:
      return wide ? launch<__nv_bfloat16, float>(p, o, stream)
                  : launch<__nv_bfloat16, __nv_bfloat16>(p, o, stream);
    default:
      return launch<float, float>(p, o, stream);
  }
}

}  // namespace tandem::cuda
