// Chooses engines for requests that somebody else carries to them: Envoy.
//
// It has no queue, and sees no answer: what does not fit now is refused, and what it sent counts
// until the engine's report speaks of it (cluster.h) or Envoy says that it is over. No I/O, no
// clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/http/rest/error_envelope.h"
#include "scheduler/cluster/cluster.h"
#include "scheduler/picker/pick_request.h"
#include "scheduler/policies/policy.h"

namespace tandem {

using PickId = std::uint64_t;  // of one decision; 0: none

struct Pick {
  PickId id = 0;
  std::string endpoints;                 // "IP:PORT,IP:PORT,...", the first the best
  std::optional<ErrorEnvelope> refused;  // the client's answer instead
};

struct PickLimits {
  std::int64_t max_waiting = 128;  // an engine where so many wait gets nothing new
  std::size_t max_fallbacks = 3;   // endpoints behind the first
};

// Not thread-safe; times are the caller's, and go up.
class Picker {
 public:
  Picker(std::unique_ptr<Policy> policy, PickLimits limits);

  // Whoever follows the engines (engine_follower.h) keeps them there, and tells of those that come
  // and go for good.
  Cluster& cluster() { return cluster_; }
  void engine_added(EngineIndex engine);  // its address has a number for a host
  void engine_gone(EngineIndex engine);
  // Ends what has been over for a moment; as each choice does.
  void settle(TimePoint now);

  // `wanted` of read_pick_request(). `subset`: as in PickRequest.
  Pick pick(Wanted wanted, const std::optional<std::vector<std::string>>& subset, TimePoint now);
  // Where the answer comes from. Another endpoint than the first: the engine that failed it, which
  // gets nothing new until its next report.
  std::optional<EngineIndex> served(PickId id, std::string_view endpoint, TimePoint now);
  // No more is heard of it. Not answered in full, as far as is known, it may still be on its way to
  // the engine, and counts for a moment longer.
  void over(PickId id, bool answered, TimePoint now);

  const Cluster& cluster() const { return cluster_; }
  const std::string& endpoint(EngineIndex engine) const { return endpoints_[engine.index()]; }
  std::int64_t running() const { return static_cast<std::int64_t>(running_.size()); }

 private:
  struct Running {
    EngineIndex engine;
    SentId sent = 0;
    Wanted wanted;
  };
  struct Due {
    TimePoint at{};
    PickId id = 0;
  };

  void end(PickId id);
  ErrorEnvelope refusal_of(const Wanted& wanted, Choice::Kind kind);

  const PickLimits limits_;
  Cluster cluster_;
  std::vector<std::string> endpoints_;  // of each engine
  std::unordered_map<PickId, Running> running_;
  std::deque<Due> due_;  // over, and counted until then; the earliest first
  PickId next_ = 1;
  std::vector<bool> listed_;  // scratch of pick(): by engine, in the subset
  std::vector<bool> roomy_;   // and with room
};

}  // namespace tandem
