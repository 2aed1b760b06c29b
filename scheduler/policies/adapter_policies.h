// Policies that look at where an adapter is, and at no rank: what today's routers do.
#pragma once

#include "scheduler/policies/policy.h"

namespace tandem {

// Rendezvous hashing by adapter with bounded loads: each adapter has its own order of the engines,
// and goes to the first that has at most `bound` times the mean of requests. Requests for the base
// model go to the least loaded.
class HashingPolicy final : public Policy {
 public:
  HashingPolicy(std::uint64_t seed, double bound) : seed_(seed), bound_(bound) {}
  std::string_view name() const override { return "hashing"; }
  Decision choose(const RouteRequest& request, std::span<const EngineView> engines) override;

 private:
  std::uint64_t seed_;
  double bound_;
};

// Scores added up, as the endpoint picker of the Kubernetes Gateway API does it: is the adapter
// active there, how short is the queue among the engines', how much KV is free. Residency without
// requests does not count; nor do ranks.
class AffinityPolicy final : public Policy {
 public:
  std::string_view name() const override { return "affinity"; }
  Decision choose(const RouteRequest& request, std::span<const EngineView> engines) override;
};

}  // namespace tandem
