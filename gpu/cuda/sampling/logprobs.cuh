// Log probabilities, ranks and the best tokens under the model's own logits.
#pragma once

#include <cmath>
#include <cstdint>

#include "gpu/cuda/sampling/row_kind.cuh"
#include "gpu/cuda/sampling/truncation.cuh"

namespace tandem::cuda {

// The row's log(sum of exp), from the survey's tiles, and its best logit.
struct RawSum {
  float best;
  double log_sum;

  __device__ float logprob(float logit) const {
    const double value = static_cast<double>(logit) - log_sum;
    return value == value ? static_cast<float>(value) : -INFINITY;
  }
};

__device__ inline RawSum sum_tiles(const SampleTile* tiles, int count) {
  float best = -INFINITY;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kChooseThreads) {
    best = fmaxf(best, tiles[i].raw_best);
  }
  best = block_reduce<kChooseThreads>(best, Larger{});
  if (!isfinite(best)) return {best, static_cast<double>(best)};
  double mass = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kChooseThreads) {
    if (tiles[i].raw_mass > 0) {
      mass += tiles[i].raw_mass * exp(static_cast<double>(tiles[i].raw_best) - best);
    }
  }
  return {best, best + log(block_reduce<kChooseThreads>(mass, Sum{}))};
}

// Fills in all of `out` for the chosen `token`. `raw` reads the model's own logits.
__device__ __noinline__ inline void report(const RowView& raw, const SampleTile* tiles,
                                           std::int32_t token, SampledToken& out,
                                           std::uint64_t* list) {
  const SampleKernelArgs& args = *raw.args;
  const RawSum sum = sum_tiles(tiles, args.tiles);
  const float chosen = number_or_lowest(raw.logits[token]);
  const bool ranks = raw.row->num_logprobs >= 0;
  Prefix all{0, args.vocab, 0, false};
  if (masked(*raw.row)) all = allowed_prefix(raw);
  const int num_top = min(min(raw.row->num_logprobs, SampledToken::kMaxLogprobs), all.count);
  std::int32_t rank = 0;
  if (ranks) {
    const std::uint64_t key = order_key(chosen, static_cast<std::uint32_t>(token));
    std::int32_t better = 0;
    raw.each([&](float logit, int id) {
      better += order_key(logit, static_cast<std::uint32_t>(id)) > key ? 1 : 0;
    });
    rank = 1 + block_reduce<kChooseThreads>(better, Sum{});
  }
  // Infinite logits have no distance, so the pivots are of no use and the keys alone decide.
  const Weighing weigh{isfinite(sum.best) ? sum.best : 0, 1};
  if (num_top > 0) {
    cut_prefix(raw, weigh, all, {num_top, -1}, list);
  }
  const int i = static_cast<int>(threadIdx.x);
  if (i == 0) {
    out.token = token;
    out.logprob = sum.logprob(chosen);
    out.rank = rank;
    out.num_top = max(num_top, 0);
  }
  if (i < SampledToken::kMaxLogprobs) {
    const bool used = i < num_top;
    out.top_tokens[i] = used ? id_of(list[i]) : 0;
    out.top_logprobs[i] = used ? sum.logprob(number_or_lowest(raw.logits[id_of(list[i])])) : 0;
  }
}

}  // namespace tandem::cuda
