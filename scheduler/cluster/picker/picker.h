// Chooses engines for requests that Envoy then forwards.
//
// It has no queue and sees no answer: a request that does not fit now is refused, and a forwarded
// request counts until the engine's report includes it (cluster.h) or Envoy says that it is over.
// No I/O, no clock.
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
#include "scheduler/cluster/members/cluster.h"
#include "scheduler/cluster/picker/pick_request.h"
#include "scheduler/cluster/policies/policy.h"

namespace tandem {

using PickId = std::uint64_t;  // of one decision; 0: none

struct Pick {
  PickId id = 0;
  std::string endpoints;                 // "IP:PORT,IP:PORT,...", best first
  std::optional<ErrorEnvelope> refused;  // the error for the client
};

struct PickLimits {
  std::int64_t max_waiting = 128;  // an engine with this many waiting requests gets no new one
  std::size_t max_fallbacks = 3;   // endpoints after the first
};

// Not thread-safe; the caller passes times, which must not decrease.
class Picker {
 public:
  Picker(std::unique_ptr<Policy> policy, PickLimits limits);

  // The code that follows the engines (engine_follower.h) keeps their views up to date in the
  // cluster, and reports here which engines are added and removed.
  Cluster& cluster() { return cluster_; }
  void engine_added(EngineIndex engine);  // its address has a numeric host
  void engine_gone(EngineIndex engine);
  // Ends requests that have been over for a moment; pick() does so too.
  void settle(TimePoint now);

  // `wanted` comes from read_pick_request(). `subset`: as in PickRequest.
  Pick pick(Wanted wanted, const std::optional<std::vector<std::string>>& subset, TimePoint now);
  // Records which endpoint answers. If it is not the first one, returns the engine that failed,
  // which gets no new request until its next report.
  std::optional<EngineIndex> served(PickId id, std::string_view endpoint, TimePoint now);
  // Records that Envoy's stream has ended. If the request was not completely answered, it may still
  // be on its way to the engine, and counts for a moment longer.
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
  std::vector<std::string> endpoints_;  // by engine
  std::unordered_map<PickId, Running> running_;
  std::deque<Due> due_;  // over, but counted until their time; the earliest first
  PickId next_ = 1;
  std::vector<bool> listed_;  // scratch of pick(): by engine, whether it is in the subset
  std::vector<bool> roomy_;   // and has room
};

}  // namespace tandem
