// Recordings of decode steps: every sequence one row, padded to a bucket of rows, so that a few
// recordings serve every batch.
//
// A recording depends on the bucket, on bounds of the adapters' ranks and of where they have
// modules, if there are any, and on where those are computed in two halves, not on which they are:
// all that varies lies in the step's metadata, at addresses that the bucket alone decides. Sampling
// and copies stay outside. The engine thread alone uses it.
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
  // For up to `max_rows` rows, which is the largest bucket; 0: no step is ever recorded. All
  // arguments outlive this.
  DecodeGraphs(Model& model, const KvCache& cache, std::int32_t max_rows);

  // Pads a filled batch to its bucket and returns true, if it is one for a recording.
  bool pad(StepBatch& batch) const;

  // Enqueues the forward pass of an uploaded, padded step; records it first where that has not
  // been done. `adapters` is the same in every call.
  Status launch(Stream& stream, const StepInput& input, const AdapterTable& adapters);

  // Records every bucket without adapters and with ranks up to `max_rank` (0: none), so that no
  // step has to; in halves wherever `halves` may say so.
  Status record_all(Stream& stream, StepBatch& batch, const AdapterTable& adapters,
                    std::int32_t max_rank, const LoraHalves& halves = {});

  const std::vector<std::int32_t>& buckets() const { return buckets_; }
  std::size_t num_recorded() const { return graphs_.size(); }

 private:
  // Rows, a bound on the rank, adapted and halved sites.
  using Key = std::tuple<std::int32_t, std::int32_t, SiteSet, SiteSet>;
  StepBounds bounds(std::int32_t rows, std::int32_t max_rank, SiteSet adapted) const;
  Result<Graph*> find_or_record(Stream& stream, const StepInput& input,
                                const AdapterTable& adapters);

  Model* model_;
  const KvCache* cache_;
  std::vector<std::int32_t> buckets_;  // ascending
  std::vector<std::int32_t> ranks_;    // bounds on the rank, ascending
  std::map<Key, RecordedGraph> graphs_;
};

}  // namespace tandem
