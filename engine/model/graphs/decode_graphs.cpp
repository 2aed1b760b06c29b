#include "engine/model/graphs/decode_graphs.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

// A decode step is bound by reading weights, so a few rows too many cost almost nothing up to the
// 16 or 32 rows of a tensor core's tile, and less than a tenth above.
constexpr std::array<std::int32_t, 25> kDecodeRows = {1,   2,   4,   8,   16,  24,  32,  48,  64,
                                                      80,  96,  112, 128, 160, 192, 224, 256, 320,
                                                      384, 448, 512, 640, 768, 896, 1024};
constexpr std::array<std::int32_t, 6> kDecodeRanks = {16, 32, 64, 128, 256, 512};
// Steps with higher ranks are so rare that their graphs are recorded where they first occur.
constexpr std::int32_t kMostRecordedRank = 512;
// Graphs take memory that nothing gives back. Steps of yet other rare kinds run without one.
constexpr std::size_t kMostRecorded = 2048;
// The sites of most adapters, and those within layers, each recorded with every bound of the rank.
constexpr std::array<SiteSet, 2> kDecodeSites = {
    SiteSet{Site::qkv}, SiteSet{Site::qkv, Site::o, Site::gate_up, Site::down, Site::layer_inputs,
                                Site::input_gate, Site::input_projection}};

// Sites outside of layers are in the bound only if an adapter has modules there, as each costs an
// operation.
SiteSet bound_of(SiteSet sites) {
  for (const SiteSet bound : kDecodeSites) {
    if (bound.has_all(sites)) return bound;
  }
  sites.add(kDecodeSites.back());
  return sites;
}

}  // namespace

DecodeGraphs::DecodeGraphs(Model& model, const KvCache& cache, std::int32_t max_rows)
    : model_(&model),
      cache_(&cache),
      buckets_(bounds_up_to(kDecodeRows, max_rows)),
      ranks_(bounds_up_to(kDecodeRanks, model.limits().max_lora_rank)) {
  TANDEM_CHECK(max_rows <= model.limits().max_rows && max_rows <= model.limits().max_samples,
               "{} rows", max_rows);
}

StepBounds DecodeGraphs::bounds(std::int32_t rows, std::int32_t max_rank, SiteSet adapted) const {
  StepBounds bounds;
  bounds.rows = rows;
  bounds.max_rank = max_rank;
  bounds.max_kv_len = static_cast<std::int32_t>(model_->limits().max_positions);
  bounds.adapted = adapted;
  return bounds;
}

template <typename Padded>
DecodeGraphs::Key DecodeGraphs::key_of(std::int32_t rows, const Padded& step, SiteSet halved) {
  if (step.max_rank == 0) return Key(rows, 0, SiteSet(), SiteSet(), false);
  return Key(rows, step.max_rank, step.adapted, halved, step.has_bias);
}

bool DecodeGraphs::pad(StepBatch& batch) const {
  if (batch.num_rows() == 0 || !batch.decodes_only()) return false;
  const std::int32_t rows = bound_of(buckets_, std::max(batch.num_rows(), batch.num_samples()));
  if (rows == 0) return false;
  const std::int32_t rank = batch.max_rank();
  SiteSet sites = batch.adapted();
  sites.add(batch.halved());
  StepBounds padded = bounds(rows, rank == 0 ? 0 : bound_of(ranks_, rank), bound_of(sites));
  padded.has_bias = batch.has_bias();
  if (rank > 0 && graphs_.size() >= kMostRecorded &&
      !graphs_.contains(key_of(rows, padded, batch.halved()))) {
    return false;
  }
  batch.pad(padded);
  return true;
}

Result<Graph*> DecodeGraphs::find_or_record(Stream& stream, const StepInput& input,
                                            const AdapterTable& adapters) {
  TANDEM_CHECK(input.padded, "{} rows", input.num_rows);
  TANDEM_CHECK((input.max_rank > 0) == (input.num_segments > 0), "{} segments of rank {}",
               input.num_segments, input.max_rank);
  const Key key = key_of(input.num_rows, input, input.halved);
  auto found = graphs_.find(key);
  if (found == graphs_.end()) {
    model_->plan_attention(stream, input, *cache_);
    TANDEM_ASSIGN(RecordedGraph recorded, record_graph(stream, input, [&] {
                    model_->compute(stream, input, *cache_, adapters);
                  }));
    found = graphs_.emplace(key, std::move(recorded)).first;
  }
  return &found->second.graph_for(input);
}

Status DecodeGraphs::launch(Stream& stream, const StepInput& input, const AdapterTable& adapters) {
  TANDEM_ASSIGN(Graph* const graph, find_or_record(stream, input, adapters));
  model_->plan_attention(stream, input, *cache_);
  stream.launch(*graph);
  return {};
}

Status DecodeGraphs::record_usual(Stream& stream, StepBatch& batch, const AdapterTable& adapters,
                                  std::int32_t max_rank, const LoraHalves& halves) {
  std::vector<std::int32_t> ranks = {0};
  for (const std::int32_t rank : ranks_) {
    if (max_rank == 0 || rank > kMostRecordedRank) break;
    ranks.push_back(rank);
    if (rank >= max_rank) break;
  }
  const auto record = [&](std::int32_t rows, std::int32_t rank, SiteSet sites) -> Status {
    for (const SiteSet halved : halves.possible(rows, rank)) {
      if (!sites.has_all(halved)) continue;
      const StepInput input = batch.padded_input(bounds(rows, rank, sites), halved);
      TANDEM_TRY(find_or_record(stream, input, adapters).status());
    }
    return {};
  };
  for (const std::int32_t rank : ranks) {
    for (const std::int32_t rows : buckets_) {
      for (const SiteSet sites : kDecodeSites) {
        TANDEM_TRY(record(rows, rank, sites));
        if (rank == 0) break;  // they make no difference
      }
    }
  }
  return {};
}

}  // namespace tandem
