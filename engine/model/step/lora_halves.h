// Chooses the projections at which a decode step on several devices computes its adapters in two
// halves (LoraPart), with an exchange of v = x A^T between the devices in the middle.
//
// All devices choose the same sets, as the choice depends only on the step's plan; and there are
// few sets, so that graphs for all of them can be recorded. Prompts are never halved, as their rows
// share the weight reads that would be saved.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "engine/model/step/step_batch.h"
#include "engine/service/lora_sharding.h"
#include "scheduler/planning/costs/shard_costs.h"

namespace tandem {

class LoraHalves {
 public:
  struct Options {
    LoraSharding sharding = LoraSharding::automatic;
    ShardCosts costs;
  };
  // The model, and the limits of a step.
  struct Shape {
    std::int32_t num_devices = 1;
    std::int64_t hidden_size = 0;  // the input size of q, k, v, gate and up
    DType dtype = DType::bf16;
    std::int32_t max_rows = 0;  // of a decode step that may be halved
    ModuleTable modules;
  };

  // Chooses no site, as for one device.
  LoraHalves() = default;
  LoraHalves(const Options& options, const Shape& shape) : options_(options), shape_(shape) {}

  // False if choose() never names a site.
  bool any() const {
    return shape_.num_devices > 1 && options_.sharding != LoraSharding::replicated;
  }
  // Chooses for a step in which each of `rows` sequences has one row. `max_rank`: the largest rank
  // of a module of its distinct adapters; `ranks`: their ranks added up at each site. The result is
  // one of a few sets, so it may name a site without modules where the sharding does not go by
  // costs.
  SiteSet choose(std::int32_t rows, std::int32_t max_rank, const SiteRanks& ranks) const;
  // All results that choose() may have for up to `rows` rows and adapters of up to `max_rank`.
  std::vector<SiteSet> possible(std::int32_t rows, std::int32_t max_rank) const;

 private:
  std::span<const SiteSet> sets() const;
  std::int64_t num_modules(Site site) const {
    return static_cast<std::int64_t>(shape_.modules.num_of(site));
  }
  // `v_columns`: those of all devices' shares.
  bool pays(std::int64_t ranks, std::int64_t rows, std::int64_t v_columns) const;

  Options options_;
  Shape shape_;
};

}  // namespace tandem
