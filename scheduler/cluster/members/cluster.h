// The engines as policies see them: their reports, corrected by the requests that this router has
// sent since.
//
// A report includes a request only once the engine has it and a report is due (every 20 ms at
// most). Until then the router counts the requests that it sent itself, or all that arrive in
// between would go to the engine that was idle at its last report.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/http/client/http_address.h"
#include "base/ids/weights_identity.h"
#include "base/status.h"
#include "scheduler/cluster/members/cluster_models.h"
#include "scheduler/cluster/policies/policy.h"
#include "scheduler/cluster/prefixes/prefix_index.h"
#include "scheduler/cluster/report/engine_report.h"

namespace tandem {

// An engine takes so many adapters for one request.
inline constexpr std::size_t kMostAdaptersOfRequest = 8;

// A request that needs an engine.
struct Wanted {
  // A base, an adapter or several ("a+b"); empty: any engine's base.
  std::string model;
  // If not empty, these adapters, all of them, instead of the model.
  std::vector<std::string> adapters = {};
  std::int64_t prompt_tokens = 0;
  std::vector<PromptBlock> prompt = {};  // empty: no engine can have a part of it
  double expected_tokens = 0;
  double slo_ttft_s = 0;        // 0: none
  double slo_token_s = 0;       // 0: none
  EngineIndex avoid = {};       // choose another if there is one: this has just failed it
  bool avoid_strictly = false;  // and choose none rather than that one
  // Weights that the answer began with: only engines with the same can continue it. Empty: not
  // begun.
  std::optional<WeightsIdentity> weights = {};
  // By engine: whether it may get the request; null: all may. Must outlive the call.
  const std::vector<bool>* among = nullptr;

  // The model or the adapters, for messages.
  std::string name() const {
    return adapters.empty() ? model : fmt::format("{}", fmt::join(adapters, "+"));
  }
  bool allows(std::size_t engine) const {
    return among == nullptr || (engine < among->size() && (*among)[engine]);
  }
};

struct Choice {
  enum class Kind {
    engine,
    wait,     // engines accept, but the policy chooses none of them now
    nobody,   // no engine that has the model accepts
    unknown,  // no engine has, or had, such a model
    changed,  // no engine that there is, or that may be back, has Wanted::weights
  };
  Kind kind = Kind::nobody;
  EngineIndex engine;
};

// The reasons for the choice of an engine, as the policy that chose it explains them.
struct RouteReasons {
  AdapterTier tier = AdapterTier::resident;  // of the adapter there; resident also without one
  std::optional<CostEstimate> estimate;      // nothing: the policy does not explain itself
  EngineIndex next;  // the cheapest other engine; not valid: none, or not asked for
  double next_cost_s = 0;
};

// Identifies one request that was sent; 0 is none.
using SentId = std::uint64_t;

// The state of one engine.
struct EngineState {
  HttpAddress address;
  bool gone = false;     // no longer among the engines
  bool listed = true;    // its source lists it; else it is removed once its reports stop
  bool heard = false;    // it has reported, or failed to
  bool up = false;       // its reports arrive and are accepted
  bool is_twin = false;  // another address of an engine that is up
  bool doubted = false;  // a call to it has failed since its last report: no new requests
  std::string why_not;   // why it is not up
  EngineReport report;   // the last, without its adapters
  TimePoint reported_at{};
  std::int64_t sent = 0;  // requests of this router that are there now

  bool usable() const { return up && !doubted && report.view.accepts; }
};

// Used on the loop's thread. The caller passes the times, so that tests need no clock.
class Cluster {
 public:
  explicit Cluster(std::unique_ptr<Policy> policy);

  EngineIndex add(HttpAddress address);
  void remove(EngineIndex engine);
  void set_listed(EngineIndex engine, bool listed) { engines_[engine.index()].listed = listed; }
  // Sets all adapters that every engine loads on request.
  void set_offered(const std::vector<OfferedAdapter>& adapters) { models_.set_offered(adapters); }

  // Fails if the report contradicts others (two engines of one id); the engine is then not up.
  Status report(EngineIndex engine, EngineReport report, bool first, TimePoint now);
  void set_aside(EngineIndex engine, std::string why);
  // A call to the engine has failed: it gets no new requests until its next report.
  void doubt(EngineIndex engine);
  // The engine has loaded or unloaded an adapter, which its next report will show.
  void expect_adapter(EngineIndex engine, const std::string& address, const std::string& name,
                      bool loaded);

  Choice choose(const Wanted& wanted, TimePoint now);
  // The reasons for the engine that choose() has just returned, before sent(). `others`: compares
  // it with all engines.
  RouteReasons reasons(const Wanted& wanted, EngineIndex chosen, bool others, TimePoint now);
  SentId sent(EngineIndex engine, const Wanted& wanted, TimePoint now);
  void ended(EngineIndex engine, SentId id);

  const std::vector<EngineState>& engines() const { return engines_; }
  const EngineView& view(EngineIndex engine) const { return views_[engine.index()]; }
  const ClusterModels& models() const { return models_; }
  std::string_view policy() const { return policy_->name(); }

 private:
  struct Sent {
    ClusterAdapterId adapter;
    std::int32_t rank = 0;
    PrefillLoad prefill;
    std::int64_t kv_tokens = 0;
    TimePoint at{};
  };
  using SentRequests = std::map<SentId, Sent>;  // oldest first

  void drop_all_adapters(EngineIndex engine);
  void forget_sent(EngineIndex engine, TimePoint sent_before);
  void refresh(EngineIndex engine);
  void warn_of_other_base(EngineIndex engine, const EngineReport& report) const;
  void warn_of_other_adapters(EngineIndex engine, const std::vector<AdapterReport>& adapters) const;
  static void count(const Sent& sent, EngineView& view);

  std::unique_ptr<Policy> policy_;
  std::vector<EngineState> engines_;
  std::vector<EngineView> views_;   // of each engine
  std::vector<SentRequests> sent_;  // to each engine, and not in a report yet
  ClusterModels models_;
  PrefixIndex prefixes_;
  SentId next_sent_ = 1;
  std::vector<EngineIndex> masked_;  // scratch of choose()
};

}  // namespace tandem
