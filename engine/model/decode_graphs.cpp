#include "engine/model/decode_graphs.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace tandem {
namespace {

// The smallest of ascending `bounds` that is no less than `value`; 0 if there is none.
std::int32_t bound_of(const std::vector<std::int32_t>& bounds, std::int32_t value) {
  const auto at = std::lower_bound(bounds.begin(), bounds.end(), value);
  return at == bounds.end() ? 0 : *at;
}

// One bound: recordings without the kernels of sites that none of a step's adapters has gained
// nothing. Llama-2-7B on two H100s, 32 adapters of q, k and v: 5.80 ms, where 5.77 were with them.
constexpr std::array kAdapted = {SiteSet::all()};

std::vector<std::int32_t> up_to(std::initializer_list<std::int32_t> values, std::int32_t last) {
  std::vector<std::int32_t> result;
  for (const std::int32_t value : values) {
    if (value < last) result.push_back(value);
  }
  if (last > 0) result.push_back(last);
  return result;
}

}  // namespace

// Weights bound a decode step, not rows: a few rows too many cost next to nothing up to the 16 or
// 32 of a tensor core's tile, and less than a tenth from there on.
DecodeGraphs::DecodeGraphs(LlamaModel& model, const KvCache& cache, std::int32_t max_rows)
    : model_(&model),
      cache_(&cache),
      buckets_(up_to({1,   2,   4,   8,   16,  24,  32,  48,  64,  80,  96,  112, 128,
                      160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024},
                     max_rows)),
      ranks_(up_to({16, 32, 64, 128, 256}, model.limits().max_lora_rank)) {
  TANDEM_CHECK(max_rows <= model.limits().max_rows && max_rows <= model.limits().max_samples,
               "{} rows", max_rows);
}

bool DecodeGraphs::pad(StepBatch& batch) const {
  if (batch.num_rows() == 0 || !batch.decodes_only()) return false;
  const std::int32_t rows = bound_of(buckets_, std::max(batch.num_rows(), batch.num_samples()));
  if (rows == 0) return false;
  const std::int32_t rank = batch.max_rank();
  const SiteSet adapted = batch.adapted();
  batch.pad(rows, rank == 0 ? 0 : bound_of(ranks_, rank),
            static_cast<std::int32_t>(model_->limits().max_positions),
            *std::ranges::find_if(kAdapted, [&](SiteSet set) { return set.has_all(adapted); }));
  return true;
}

Result<Graph*> DecodeGraphs::find_or_record(Stream& stream, const StepInput& input,
                                            const AdapterTable& adapters) {
  TANDEM_CHECK(input.padded, "{} rows", input.num_rows);
  const bool adapted = input.num_segments > 0;
  const Key key(input.num_rows, adapted ? input.max_rank : 0, adapted ? input.adapted : SiteSet(),
                adapted ? input.halved : SiteSet());
  if (const auto found = graphs_.find(key); found != graphs_.end()) {
    TANDEM_CHECK(found->second.ids == input.ids && found->second.page_ids == input.page_ids,
                 "the metadata of {} rows has moved", input.num_rows);
    return found->second.graph.get();
  }
  model_->plan_attention(stream, input, *cache_);
  TANDEM_TRY(stream.begin_recording());
  try {
    model_->compute(stream, input, *cache_, adapters);
  } catch (...) {
    (void)stream.end_recording();  // else what follows would be recorded, and not run
    throw;
  }
  TANDEM_ASSIGN(std::unique_ptr<Graph> graph, stream.end_recording());
  Graph* raw = graph.get();
  graphs_.emplace(key, Recorded{std::move(graph), input.ids, input.page_ids});
  return raw;
}

Status DecodeGraphs::launch(Stream& stream, const StepInput& input, const AdapterTable& adapters) {
  TANDEM_ASSIGN(Graph* const graph, find_or_record(stream, input, adapters));
  model_->plan_attention(stream, input, *cache_);
  stream.launch(*graph);
  return {};
}

Status DecodeGraphs::record_all(Stream& stream, StepBatch& batch, const AdapterTable& adapters,
                                std::int32_t max_rank, const LoraHalves& halves) {
  std::vector<std::int32_t> ranks = {0};
  for (const std::int32_t rank : ranks_) {
    if (max_rank > 0) ranks.push_back(rank);
    if (rank >= max_rank) break;
  }
  const auto max_kv_len = static_cast<std::int32_t>(model_->limits().max_positions);
  for (const std::int32_t rank : ranks) {
    for (const std::int32_t rows : buckets_) {
      for (const SiteSet adapted : kAdapted) {
        for (const SiteSet halved : halves.possible(rows, rank)) {
          if (!adapted.has_all(halved)) continue;
          const StepInput input = batch.padded_input(rows, rank, max_kv_len, adapted, halved);
          TANDEM_TRY(find_or_record(stream, input, adapters).status());
        }
      }
    }
  }
  return {};
}

}  // namespace tandem
