// Cuts a row's tokens to the shortest prefix of the order (order.cuh) that holds a given number of
// tokens and a given mass, without sorting the vocabulary. Each pass narrows the range of keys with
// seven pivots, whose counts and masses tell between which two of them the last kept token lies,
// until the tokens in the range fit into shared memory, where they are sorted. Keys are distinct,
// so ties are cut by id. Two passes usually suffice: pivots a few temperatures below the best token
// leave fewer than kMaxListed.
#pragma once

#include <cstdint>

#include "gpu/cuda/sampling/block.cuh"
#include "gpu/cuda/sampling/order.cuh"
#include "gpu/cuda/sampling/row_view.cuh"

namespace tandem::cuda {

constexpr int kMaxListed = 1024;
// The range is narrowed to this many tokens. At most kMaxLogprobs tokens are wanted, so that all
// tokens before them fit into the list as well.
constexpr int kMaxInRange = kMaxListed - SampledToken::kMaxLogprobs;
constexpr int kPivots = 7;

// exp((logit - best) / temperature): 1 for the best token.
struct Weighing {
  float best;
  float inverse_temperature;

  __device__ float operator()(float logit) const {
    return expf((logit - best) * inverse_temperature);
  }
};

// The tokens whose keys are at least `key`.
struct Prefix {
  std::uint64_t key;
  std::int32_t count;
  double mass;
  bool listed;  // the list holds their keys, in order
};

// The key of the lowest finite logit, for any token: tokens with lower keys are excluded.
constexpr std::uint64_t kLeastFinite = std::uint64_t{0x00800000U} << 32;

// The tokens that the mask allows; every thread of the block calls it.
__device__ inline Prefix allowed_prefix(const RowView& view) {
  std::int32_t count = 0;
  view.each([&](float logit, int) { count += logit > -INFINITY ? 1 : 0; });
  return {kLeastFinite, block_reduce<kChooseThreads>(count, Sum{}), 0, false};
}

struct Wanted {
  std::int32_t count;
  double mass;

  __device__ bool met(std::int32_t tokens, double held) const {
    return tokens >= count && held >= mass;
  }
};

struct PivotTally {
  std::int32_t count[kPivots];  // tokens of the range at or above each pivot
  double mass[kPivots];
};

struct AddTallies {
  __device__ PivotTally operator()(PivotTally a, const PivotTally& b) const {
#pragma unroll
    for (int i = 0; i < kPivots; ++i) {
      a.count[i] += b.count[i];
      a.mass[i] += b.mass[i];
    }
    return a;
  }
};

template <typename IsAtOrAbove>
__device__ __forceinline__ void add_to(std::int32_t (&counts)[kPivots], float (&masses)[kPivots],
                                       float weight, IsAtOrAbove at_or_above) {
#pragma unroll
  for (int i = 0; i < kPivots; ++i) {
    const bool above = at_or_above(i);
    counts[i] += above ? 1 : 0;
    masses[i] += above ? weight : 0;
  }
}

__device__ __forceinline__ PivotTally to_tally(const std::int32_t (&counts)[kPivots],
                                               const float (&masses)[kPivots]) {
  PivotTally tally;
#pragma unroll
  for (int i = 0; i < kPivots; ++i) {
    tally.count[i] = counts[i];
    tally.mass[i] = masses[i];
  }
  return tally;
}

// This thread's share of the tokens with keys in [pivots[i], high).
__device__ inline PivotTally tally_keys(const RowView& view, const Weighing& weigh,
                                        const std::uint64_t (&pivots)[kPivots],
                                        std::uint64_t high) {
  std::int32_t counts[kPivots] = {};
  float masses[kPivots] = {};
  view.each([&](float logit, int id) {
    const std::uint64_t key = order_key(logit, static_cast<std::uint32_t>(id));
    if (key < pivots[kPivots - 1] || key >= high) return;
    add_to(counts, masses, weigh(logit), [&](int i) { return key >= pivots[i]; });
  });
  return to_tally(counts, masses);
}

// Likewise without an upper bound, for pivots at a logit's first token: half the instructions.
__device__ inline PivotTally tally_logits(const RowView& view, const Weighing& weigh,
                                          const std::uint64_t (&pivots)[kPivots]) {
  float at[kPivots];
#pragma unroll
  for (int i = 0; i < kPivots; ++i) at[i] = logit_of(pivots[i]);
  std::int32_t counts[kPivots] = {};
  float masses[kPivots] = {};
  view.each([&](float logit, int) {
    add_to(counts, masses, weigh(logit), [&](int i) { return logit >= at[i]; });
  });
  return to_tally(counts, masses);
}

// Sorts by descending key; `list` has room for the next power of two.
__device__ inline void sort_list(std::uint64_t* list, int count) {
  int size = 2;
  while (size < count) size *= 2;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = count + thread; i < size; i += kChooseThreads) list[i] = 0;
  for (int run = 2; run <= size; run *= 2) {
    for (int distance = run / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int i = thread; i < size / 2; i += kChooseThreads) {
        const int low = 2 * i - (i & (distance - 1));
        const int high = low + distance;
        const bool descending = (low & run) == 0;
        const std::uint64_t a = list[low];
        const std::uint64_t b = list[high];
        if ((a < b) == descending) {
          list[low] = b;
          list[high] = a;
        }
      }
    }
  }
  __syncthreads();
}

// Writes the keys in [low, high) to the list, sorted; returns their number.
__device__ inline int list_range(const RowView& view, std::uint64_t low, std::uint64_t high,
                                 std::uint64_t* list) {
  __shared__ int count;
  __syncthreads();
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  view.each([&](float logit, int id) {
    const std::uint64_t key = order_key(logit, static_cast<std::uint32_t>(id));
    if (key < low || key >= high) return;
    const int at = atomicAdd(&count, 1);
    if (at < kMaxListed) list[at] = key;
  });
  __syncthreads();
  const int listed = min(count, kMaxListed);
  sort_list(list, listed);
  return listed;
}

// The first tokens of the list, after those of `before`, that meet `wanted`; all if none do.
__device__ inline Prefix cut_list(const std::uint64_t* list, int count, const Prefix& before,
                                  const Wanted& wanted, const Weighing& weigh) {
  __shared__ Prefix result;
  __syncthreads();
  if (threadIdx.x < 32) {
    const int lane = static_cast<int>(threadIdx.x);
    double held = before.mass;
    for (int begin = 0; begin < count; begin += 32) {
      const int i = begin + lane;
      double sum = i < count ? static_cast<double>(weigh(logit_of(list[i]))) : 0.0;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const double other = __shfl_up_sync(0xFFFFFFFFU, sum, distance);
        if (lane >= distance) sum += other;
      }
      const bool met =
          i < count && (wanted.met(before.count + i + 1, held + sum) || i == count - 1);
      const unsigned lanes = __ballot_sync(0xFFFFFFFFU, met);
      if (lanes != 0) {
        if (lane == __ffs(static_cast<int>(lanes)) - 1) {
          result = {list[i], before.count + i + 1, held + sum, before.count == 0};
        }
        break;
      }
      held += __shfl_sync(0xFFFFFFFFU, sum, 31);
    }
  }
  __syncthreads();
  return result;
}

// Cuts `from`, a prefix of known count and mass. Keeps at least one token. Every thread of the
// block calls it, with the same arguments.
__device__ __noinline__ inline Prefix cut_prefix(const RowView& view, const Weighing& weigh,
                                                 const Prefix& from, const Wanted& wanted,
                                                 std::uint64_t* list) {
  constexpr float kSteps[kPivots] = {1, 2, 3.5F, 5.5F, 8, 11, 15};
  if (!wanted.met(from.count, from.mass)) return from;  // can only be due to rounding
  if (from.listed)
    return cut_list(list, from.count, {~std::uint64_t{0}, 0, 0, true}, wanted, weigh);
  Prefix low = from;                           // meets `wanted`
  Prefix high{~std::uint64_t{0}, 0, 0, true};  // does not
  const float temperature = 1 / weigh.inverse_temperature;
  for (bool first = from.key <= kLeastFinite; low.count - high.count > kMaxInRange; first = false) {
    std::uint64_t pivots[kPivots];
#pragma unroll
    for (int i = 0; i < kPivots; ++i) {
      if (first) {
        pivots[i] = order_key(weigh.best - temperature * kSteps[i], 0xFFFFFFFFU);
      } else {
        const auto part = static_cast<std::uint64_t>(i + 1);
        pivots[i] = high.key - (high.key - low.key) / (kPivots + 1) * part;
      }
    }
    const PivotTally tally = block_reduce<kChooseThreads>(
        first ? tally_logits(view, weigh, pivots) : tally_keys(view, weigh, pivots, high.key),
        AddTallies{});
    const Prefix above = high;
#pragma unroll
    for (int i = 0; i < kPivots; ++i) {
      const Prefix at{pivots[i], above.count + tally.count[i], above.mass + tally.mass[i], false};
      if (wanted.met(at.count, at.mass)) {
        low = at;
        break;
      }
      high = at;
    }
  }
  if (low.count <= kMaxListed) high = {~std::uint64_t{0}, 0, 0, true};
  const int listed = list_range(view, low.key, high.key, list);
  return cut_list(list, listed, high, wanted, weigh);
}

}  // namespace tandem::cuda
