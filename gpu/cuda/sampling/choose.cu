// Chooses the token of every row from the survey's results for its tiles, and writes all of
// SampledToken. Greedy rows, and rows without any cut, need only the tiles' results; for other
// rows, the block makes two or three passes over the row (truncation.cuh).
//
// Grid: one block per row. Bound by latency for rows that need only the tiles' results, otherwise
// by one block's reading of the row from the L2 cache.
#include <cmath>

#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/sampling/block.cuh"
#include "gpu/cuda/sampling/logprobs.cuh"
#include "gpu/cuda/sampling/order.cuh"
#include "gpu/cuda/sampling/penalties.cuh"
#include "gpu/cuda/sampling/race.cuh"
#include "gpu/cuda/sampling/row_kind.cuh"
#include "gpu/cuda/sampling/row_view.cuh"
#include "gpu/cuda/sampling/sampling_kernels.h"
#include "gpu/cuda/sampling/truncation.cuh"

namespace tandem::cuda {
namespace {

// The race between the winners of the tiles, now that the row's best logit is known.
__device__ Runner race_of_winners(const SampleTile* tiles, int count, const Weighing& weigh,
                                  const DrawKey& key) {
  Runner winner{0, -1, 0};
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kChooseThreads) {
    const SampleTile& tile = tiles[i];
    if (tile.drawn < 0) continue;
    const float weight = weigh(tile.drawn_logit);
    if (weight > 0)
      winner = Faster{}(winner, run_exactly(weight, key, tile.drawn, tile.drawn_logit));
  }
  return block_reduce<kChooseThreads>(winner, Faster{});
}

// The race between the tokens of `kept` that are not below min_p.
__device__ Runner race_of_kept(const RowView& view, const Weighing& weigh, const Prefix& kept,
                               const DrawKey& key, const std::uint64_t* list) {
  const float floor = view.row->min_p;
  Runner winner{0, -1, 0};
  if (kept.listed) {
    for (int i = static_cast<int>(threadIdx.x); i < kept.count; i += kChooseThreads) {
      const float logit = logit_of(list[i]);
      const float weight = weigh(logit);
      if (weight < floor || weight <= 0) continue;
      winner = Faster{}(winner, run_exactly(weight, key, id_of(list[i]), logit));
    }
    return block_reduce<kChooseThreads>(winner, Faster{});
  }
  const auto quick = [&](float logit, int id, float& weight) {
    if (order_key(logit, static_cast<std::uint32_t>(id)) < kept.key) return 0.0F;
    weight = weigh(logit);
    return weight >= floor ? quick_rate(weight, key, static_cast<std::uint32_t>(id)) : 0.0F;
  };
  float fastest = 0;
  view.each([&](float logit, int id) {
    float weight = 0;
    fastest = fmaxf(fastest, quick(logit, id, weight));
  });
  const float bound = block_reduce<kChooseThreads>(fastest, Larger{}) * (1 - 3 * kQuickRateError);
  const bool may_win = fastest > 0 && fastest >= bound;
  view.each([&](float logit, int id) {
    if (!may_win) return;
    float weight = 0;
    if (!(quick(logit, id, weight) >= bound)) return;
    winner = Faster{}(winner, run_exactly(weight, key, id, logit));
  });
  return block_reduce<kChooseThreads>(winner, Faster{});
}

// The sum of the row's weights.
__device__ double mass_of(const SampleTile* tiles, int count, const Weighing& weigh) {
  double mass = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kChooseThreads) {
    mass += tiles[i].mass * static_cast<double>(weigh(logit_of(tiles[i].best)));
  }
  return block_reduce<kChooseThreads>(mass, Sum{});
}

__device__ std::int32_t draw(const RowView& view, const SampleTile* tiles, std::uint64_t best,
                             std::uint64_t* list) {
  const SampleRow& row = *view.row;
  const Weighing weigh{logit_of(best), 1.0F / row.temperature};
  if (!isfinite(weigh.inverse_temperature)) return id_of(best);
  const DrawKey key(row.seed, row.position);
  Runner winner{0, -1, 0};
  if (!cuts(row)) {
    winner = race_of_winners(tiles, view.args->tiles, weigh, key);
  } else {
    const bool by_mass = row.top_p < 1;
    Prefix kept{0, view.args->vocab, 0, false};
    if (masked(row)) kept = allowed_prefix(view);  // often only a few tokens, which need no search
    if (by_mass) kept.mass = mass_of(tiles, view.args->tiles, weigh);
    if (row.top_k > 0 && row.top_k < kept.count) {
      kept = cut_prefix(view, weigh, kept, {row.top_k, -1}, list);
    }
    if (by_mass) {  // a fraction of what top_k left
      const double mass = fmax(0.0, static_cast<double>(row.top_p)) * kept.mass;
      kept = cut_prefix(view, weigh, kept, {1, mass}, list);
    }
    winner = race_of_kept(view, weigh, kept, key, list);
  }
  return winner.id >= 0 ? winner.id : id_of(best);
}

__global__ __launch_bounds__(kChooseThreads) void choose(
    const __grid_constant__ SampleKernelArgs args) {
  __shared__ PenaltyTile tile;
  __shared__ std::uint64_t list[kMaxListed];
  wait_for_previous_kernels();
  const SampleRow& row = args.rows[blockIdx.x];
  const SampleTile* tiles = args.partials + static_cast<std::int64_t>(blockIdx.x) * args.tiles;
  const float* logits = args.logits + static_cast<std::int64_t>(blockIdx.x) * args.stride;
  SampledToken& out = args.out[blockIdx.x];

  std::int32_t token = row.forced_token;
  if (token < 0) {
    std::uint64_t best = 0;
    for (int i = static_cast<int>(threadIdx.x); i < args.tiles; i += kChooseThreads) {
      best = max(best, tiles[i].best);
    }
    best = block_reduce<kChooseThreads>(best, Larger{});
    token = id_of(best);
    if (row.temperature > 0 && isfinite(logit_of(best))) {
      const bool again = adjusted(row) && !adjusts_in_place(row);
      token = draw({logits, &row, &args, again ? &tile : nullptr}, tiles, best, list);
    }
  }
  if (reports(row)) {
    report({logits, &row, &args, nullptr}, tiles, token, out, list);
    return;
  }
  const int i = static_cast<int>(threadIdx.x);
  if (i == 0) {
    out.token = token;
    out.logprob = 0;
    out.rank = 0;
    out.num_top = 0;
  }
  if (i < SampledToken::kMaxLogprobs) {
    out.top_tokens[i] = 0;
    out.top_logprobs[i] = 0;
  }
}

}  // namespace

Status launch_choose(const SampleKernelArgs& args, std::int32_t num_rows, cudaStream_t stream) {
  return launch_kernel("sampling (choice of the tokens)",
                       {static_cast<unsigned>(num_rows), kChooseThreads, 0, true}, stream, choose,
                       args);
}

}  // namespace tandem::cuda
