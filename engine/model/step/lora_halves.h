// Where a decode step of devices that share a model computes its adapters in two halves (LoraPart),
// between which the devices tell each other v = x A^T: for each projection, by what is in the step.
//
// All devices decide alike, as what they go by is in the step's plan; and it is few numbers, so
// that recordings of both kinds serve all steps. Prompts are never halved: their rows share the
// weights that would be saved.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "engine/model/step/step_batch.h"
#include "engine/service/lora_sharding.h"
#include "scheduler/costs/shard_costs.h"

namespace tandem {

class LoraHalves {
 public:
  struct Options {
    LoraSharding sharding = LoraSharding::automatic;
    ShardCosts costs;
  };
  // The model, and what a step of it may have.
  struct Shape {
    std::int32_t num_devices = 1;
    std::int64_t hidden_size = 0;  // what q, k, v, gate and up multiply
    DType dtype = DType::bf16;
    std::int32_t max_rows = 0;  // of a decode step that is halved
  };

  // Nowhere: of one device.
  LoraHalves() = default;
  LoraHalves(const Options& options, const Shape& shape) : options_(options), shape_(shape) {}

  // False: never, whatever the step.
  bool any() const {
    return shape_.num_devices > 1 && options_.sharding != LoraSharding::replicated;
  }
  // For a step in which each of `rows` sequences has one row: of the distinct adapters the largest
  // rank of a module, and each site's ranks added up. One of a few sets: where the sharding is no
  // matter of costs, and adapters have rare modules, it may name a site that none of them has.
  SiteSet choose(std::int32_t rows, std::int32_t max_rank, const SiteRanks& ranks) const;
  // All that choose() may say of steps of up to `rows` rows and adapters of up to `max_rank`.
  std::vector<SiteSet> possible(std::int32_t rows, std::int32_t max_rank) const;

 private:
  std::span<const SiteSet> sets() const;
  // `v_columns`: of all devices' shares.
  bool pays(std::int64_t ranks, std::int64_t rows, std::int64_t v_columns) const;

  Options options_;
  Shape shape_;
};

}  // namespace tandem
