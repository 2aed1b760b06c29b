// Graphs of decode steps. Every sequence has one row, and the rows are padded to a bucket size, so
// that a few graphs serve every batch.
//
// A graph depends on the bucket, on whether there are adapters, on bounds of their ranks and of the
// sites of their modules, and on the sites that are computed in two halves. It does not depend on
// the adapters themselves: all that varies is in the step's metadata, at addresses that follow from
// the bucket alone. Sampling and copies are not part of a graph. Only the engine thread may use
// this.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "engine/memory/kv_cache.h"
#include "engine/model/graphs/recorded_graph.h"
#include "engine/model/model.h"
#include "engine/model/step/lora_halves.h"
#include "engine/model/step/step_batch.h"
#include "gpu/device.h"

namespace tandem {

class DecodeGraphs {
 public:
  // For up to `max_rows` rows, which is the largest bucket; 0: no graphs. All arguments outlive the
  // DecodeGraphs.
  DecodeGraphs(Model& model, const KvCache& cache, std::int32_t max_rows);

  // Returns true if a graph can run the filled batch, which it then pads to its bucket.
  bool pad(StepBatch& batch) const;

  // Enqueues the forward pass of an uploaded, padded step, and records its graph first if there is
  // none. `adapters` is the same in every call.
  Status launch(Stream& stream, const StepInput& input, const AdapterTable& adapters);

  // Records the graphs of steps without adapters and with usual ones: ranks up to `max_rank` (0: no
  // adapters) but at most 512, modules within layers, no biases; with each set of halved sites that
  // `halves` may choose. Other steps record theirs when they first occur.
  Status record_usual(Stream& stream, StepBatch& batch, const AdapterTable& adapters,
                      std::int32_t max_rank, const LoraHalves& halves = {});

  const std::vector<std::int32_t>& buckets() const { return buckets_; }
  std::size_t num_recorded() const { return graphs_.size(); }

 private:
  // Rows, bound of the rank, sites with modules, halved sites, biases.
  using Key = std::tuple<std::int32_t, std::int32_t, SiteSet, SiteSet, bool>;
  // `step`: the StepBounds of a step, or the StepInput that is padded to them.
  template <typename Padded>
  static Key key_of(std::int32_t rows, const Padded& step, SiteSet halved);
  StepBounds bounds(std::int32_t rows, std::int32_t max_rank, SiteSet adapted) const;
  Result<Graph*> find_or_record(Stream& stream, const StepInput& input,
                                const AdapterTable& adapters);

  Model* model_;
  const KvCache* cache_;
  std::vector<std::int32_t> buckets_;  // ascending
  std::vector<std::int32_t> ranks_;    // bounds of the rank, ascending
  std::map<Key, RecordedGraph> graphs_;
};

}  // namespace tandem
