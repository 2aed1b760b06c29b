// Policies that consider where an adapter is, but not its rank, as existing routers do.
#pragma once

#include "scheduler/cluster/policies/policy.h"

namespace tandem {

// Rendezvous hashing by adapter with bounded loads: each adapter has its own order of the engines,
// and a request goes to the first engine that has at most `bound` times the mean number of
// requests. Requests for the base model go to the engine with the least load.
class HashingPolicy final : public Policy {
 public:
  HashingPolicy(std::uint64_t seed, double bound) : seed_(seed), bound_(bound) {}
  std::string_view name() const override { return "hashing"; }
  Decision choose(const RouteRequest& request, std::span<const EngineView> engines) override;

 private:
  std::uint64_t seed_;
  double bound_;
};

// A sum of scores as in the endpoint picker of the Kubernetes Gateway API: whether the adapter is
// active on the engine, how short its queue is compared with the others, and how much KV is free.
// Adapters without requests and ranks are ignored.
class AffinityPolicy final : public Policy {
 public:
  std::string_view name() const override { return "affinity"; }
  Decision choose(const RouteRequest& request, std::span<const EngineView> engines) override;
};

}  // namespace tandem
