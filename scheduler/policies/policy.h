// Which engine gets a request. One small class for each policy; router, picker and simulator share
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduler/policies/engine_view.h"

namespace tandem {

struct Decision {
  EngineIndex engine;  // not valid: none now, the request waits before the engines
  double cost = 0;     // what the policy minimised, in its own unit; for logs and tests

  bool chosen() const { return engine.valid(); }
};

// No I/O, no clock, no allocation in choose(); the same calls in the same order choose the same,
// given the same seed. Not thread-safe: some count what they chose.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string_view name() const = 0;
  // An engine that accepts, or none where no engine does; `punica` and `first_fit` choose none also
  // while every engine is full.
  virtual Decision choose(const RouteRequest& request, std::span<const EngineView> engines) = 0;
};

struct PolicyOptions {
  std::uint64_t seed = 1;
  // Of answers, in tokens: over which rank_aware spreads a prefill.
  double average_answer_tokens = 58;
  // A decode step that takes longer violates the SLO (rank_aware); 0: no SLO.
  double slo_decode_s = 0;
  // What rank_aware adds to a cost that violates the SLO. Far above any cost: see
  // rank_aware_policy.cpp.
  double penalty_s = 1;
  // hashing: an engine takes at most this over the mean of requests.
  double hashing_bound = 1.25;
  // tandem: an adapter may be on so many engines for each that its share of the demand fills, and
  // on `least_replicas` whatever its share.
  double replicas_per_share = 10;
  std::int32_t least_replicas = 4;
};

// In the order in which reports show them.
std::vector<std::string> policy_names();
// An unknown name is an error that lists the known ones.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options);

// Of two hashes a hash, well mixed: the same everywhere and always, as stateless routers must
// agree.
constexpr std::uint64_t mix_hash(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ULL ^ (b + 0x632be59bd9b4e019ULL);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace tandem
