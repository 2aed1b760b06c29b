// Policies that ignore adapters; baselines for the others.
#pragma once

#include "scheduler/cluster/policies/policy.h"

namespace tandem {

class RandomPolicy final : public Policy {
 public:
  explicit RandomPolicy(std::uint64_t seed) : seed_(seed) {}
  std::string_view name() const override { return "random"; }
  Decision choose(const RouteRequest& request, std::span<const EngineView> engines) override;

 private:
  std::uint64_t seed_;
  std::uint64_t calls_ = 0;
};

// Round robin over the engines.
class RoundRobinPolicy final : public Policy {
 public:
  std::string_view name() const override { return "round_robin"; }
  Decision choose(const RouteRequest& request, std::span<const EngineView> engines) override;

 private:
  std::size_t next_ = 0;
};

// The engine with the fewest running and waiting requests; ties: the fewest tokens of context and
// prompts, then the lowest index.
class MostIdlePolicy final : public Policy {
 public:
  std::string_view name() const override { return "most_idle"; }
  Decision choose(const RouteRequest& request, std::span<const EngineView> engines) override;
};

// The first engine with room: bin packing, the CaraServe paper's baseline.
class FirstFitPolicy final : public Policy {
 public:
  std::string_view name() const override { return "first_fit"; }
  Decision choose(const RouteRequest& request, std::span<const EngineView> engines) override;
};

// Punica, section 5.1: the engine with the largest working set that still has room; ties: the
// highest id. A request for which no engine has room waits, first come first served.
class PunicaPolicy final : public Policy {
 public:
  std::string_view name() const override { return "punica"; }
  Decision choose(const RouteRequest& request, std::span<const EngineView> engines) override;
};

}  // namespace tandem
