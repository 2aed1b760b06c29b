#include "engine/model/layer_graphs.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tandem {
namespace {

// Fewer bounds than decode steps have: each is a recording of every layer.
constexpr std::array<std::int32_t, 9> kLayerRows = {8, 16, 32, 48, 64, 96, 128, 192, 256};
constexpr std::array<std::int32_t, 3> kLayerRanks = {16, 64, 256};
// How many sequences, and segments: kernels for one prompt are cut otherwise than for many rows
// that have little in common.
constexpr std::array<std::int32_t, 2> kFewSequences = {1, 4};
// Of steps with more sequences: attention's launch then has room for as many as there are rows, and
// its empty blocks cost more than they save.
constexpr std::int32_t kMostMixedRows = 64;
constexpr std::int32_t kSeveralGroups = 8;

}  // namespace

LayerGraphs::LayerGraphs(std::int32_t max_rows, std::int32_t max_rank, std::int64_t max_positions,
                         When when)
    : rows_(bounds_up_to(kLayerRows, std::min(max_rows, kLayerRows.back()))),
      ranks_(bounds_up_to(kLayerRanks, max_rank)),
      max_positions_(static_cast<std::int32_t>(max_positions)),
      when_(when) {}

// A step with cold groups has the largest bound on the rank, and one prompt or many: so that few
// recordings have offers in them.
std::optional<StepBounds> LayerGraphs::bounds(std::int32_t rows, std::int32_t sequences,
                                              std::int32_t max_rank, std::int32_t groups) const {
  StepBounds bounds;
  bounds.rows = bound_of(rows_, rows);
  if (bounds.rows == 0 || groups > kSeveralGroups) return std::nullopt;
  std::int32_t few = bound_of(kFewSequences, sequences);
  if (groups > 0 && sequences > 1) few = 0;
  if (few == 0 && bounds.rows > kMostMixedRows) return std::nullopt;
  bounds.sequences = few > 0 && few <= bounds.rows ? few : bounds.rows;
  bounds.max_kv_len = max_positions_;
  if (max_rank > 0) bounds.max_rank = groups > 0 ? ranks_.back() : bound_of(ranks_, max_rank);
  if (groups > 0) bounds.groups = sequences == 1 ? 1 : kSeveralGroups;
  return bounds;
}

std::vector<StepBounds> LayerGraphs::all_bounds(bool cold) const {
  std::vector<StepBounds> all;
  for (const std::int32_t rows : rows_) {
    for (const std::int32_t sequences : {kFewSequences[0], kFewSequences[1], rows}) {
      std::vector<std::int32_t> ranks = {0};
      ranks.insert(ranks.end(), ranks_.begin(), ranks_.end());
      if (cold) ranks = {ranks.back()};
      for (const std::int32_t rank : ranks) {
        if (cold && rank == 0) continue;
        const auto found = bounds(rows, sequences, rank, cold ? 1 : 0);
        if (found && std::ranges::find(all, *found) == all.end()) all.push_back(*found);
      }
    }
  }
  return all;
}

bool LayerGraphs::serves(std::span<const LayerHandoff> layers) const {
  if (when_ == When::when_met) return true;
  return std::ranges::all_of(layers, [](const LayerHandoff& layer) {
    const SiteSet offered = layer.offered();
    if (offered == SiteSet()) return true;
    const SiteSet xa = layer.xa();
    return std::ranges::find(kOffered, offered) != kOffered.end() &&
           (xa == SiteSet() || xa == offered);
  });
}

bool LayerGraphs::pad(StepBatch& batch) const {
  if (batch.halved() != SiteSet() && when_ == When::beforehand) return false;
  const auto found = bounds(std::max(batch.num_rows(), batch.num_samples()), batch.num_sequences(),
                            batch.max_rank(), batch.num_groups());
  if (!found || batch.num_rows() == 0) return false;
  batch.pad(*found);
  return true;
}

Graph* LayerGraphs::find(const LayerKind& kind, const StepInput& input) const {
  const auto found = graphs_.find(kind);
  return found == graphs_.end() ? nullptr : &found->second.graph_for(input);
}

Status LayerGraphs::record(Stream& stream, const LayerKind& kind, const StepInput& input,
                           const std::function<void()>& enqueue) {
  if (graphs_.contains(kind)) return {};
  TANDEM_ASSIGN(RecordedGraph recorded, record_graph(stream, input, enqueue));
  graphs_.emplace(kind, std::move(recorded));
  return {};
}

void LayerGraphs::run(Stream& stream, const LayerKind& kind, const StepInput& input,
                      const std::function<void()>& enqueue) {
  Graph* graph = find(kind, input);
  if (graph == nullptr && when_ == When::when_met && status_.ok()) {
    status_ = record(stream, kind, input, enqueue);
    graph = find(kind, input);
  }
  if (graph == nullptr) {
    enqueue();
  } else {
    stream.launch(*graph);
  }
}

}  // namespace tandem
