// The engines as a policy sees them: what they report, corrected by what this router has sent
// since.
//
// A report tells of a request only when the engine has it and a report is due (every 20 ms at
// most). Until then the router counts what it sent itself, or all that arrives in between would go
// to the engine that was idle a moment ago.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/http/client/http_address.h"
#include "base/status.h"
#include "base/weights_identity.h"
#include "scheduler/cluster/engine_source.h"
#include "scheduler/policies/adapter_index.h"
#include "scheduler/policies/policy.h"
#include "scheduler/policies/tandem_policy.h"
#include "scheduler/prefixes/prefix_index.h"
#include "scheduler/report/engine_report.h"

namespace tandem {

// What a policy is to find an engine for.
struct Wanted {
  std::string model;  // base or adapter; empty: any engine's base
  std::int64_t prompt_tokens = 0;
  std::vector<PromptBlock> prompt = {};  // empty: nobody can have a part of it
  double expected_tokens = 0;
  double slo_ttft_s = 0;        // 0: none
  double slo_token_s = 0;       // 0: none
  EngineIndex avoid = {};       // another one, if there is one: this has just failed it
  bool avoid_strictly = false;  // and rather none than that one
  // What the answer began with: no other engine can go on with it. Nothing: it has not begun.
  std::optional<WeightsIdentity> weights = {};
  // By engine: who may get it; null: all. Outlives the call.
  const std::vector<bool>* among = nullptr;

  bool allows(std::size_t engine) const {
    return among == nullptr || (engine < among->size() && (*among)[engine]);
  }
};

struct Choice {
  enum class Kind {
    engine,
    wait,     // engines accept, but the policy wants none of them now
    nobody,   // no engine that has the model accepts
    unknown,  // no engine has, or had, such a model
    changed,  // no engine that there is, or that may be back, has Wanted::weights
  };
  Kind kind = Kind::nobody;
  EngineIndex engine;
};

// What it would cost a stream to go on at another engine, and what it would take there.
struct MoveCost {
  double pause_s = 0;  // it is expected to say nothing for so long
  bool cold = false;   // its adapter is not on that engine's device
  PrefillLoad prefill;
  std::int64_t kv_tokens = 0;
  std::int64_t load_bytes = 0;  // of the adapter, if it is cold
};

// Why a request goes to an engine, by the figures of the policy `tandem`.
struct RouteReasons {
  AdapterTier tier = AdapterTier::resident;  // of its adapter there; resident, too: it has none
  TandemEstimate estimate;
  EngineIndex
      next;  // the cheapest of the others; not valid: there is none, or it was not asked for
  double next_cost_s = 0;
};

// Names one request that was sent; 0 is none.
using SentId = std::uint64_t;

// One engine, for those who show it.
struct EngineState {
  HttpAddress address;
  bool gone = false;     // no longer among the engines
  bool listed = true;    // its source vouches for it; else it goes when its reports are silent
  bool heard = false;    // it has reported, or is known not to
  bool up = false;       // its reports come and are believed
  bool is_twin = false;  // another address of one that is up
  bool doubted = false;  // a call to it has failed since its last report: it gets nothing new
  std::string why_not;   // it is not up
  EngineReport report;   // the last, without its adapters
  TimePoint reported_at{};
  std::int64_t sent = 0;  // requests of this router's that are there now

  bool usable() const { return up && !doubted && report.view.accepts; }
};

// On the loop's thread. Times are the caller's, so that tests need no clock.
class Cluster {
 public:
  explicit Cluster(std::unique_ptr<Policy> policy);

  EngineIndex add(HttpAddress address);
  void remove(EngineIndex engine);
  void set_listed(EngineIndex engine, bool listed) { engines_[engine.index()].listed = listed; }
  // Adapters that an engine without them loads when it is asked for them: all there are.
  void set_offered(const std::vector<OfferedAdapter>& adapters);

  // A failure: it contradicts what others say (two engines of one id), and the engine is not up.
  Status report(EngineIndex engine, EngineReport report, bool first, TimePoint now);
  void set_aside(EngineIndex engine, std::string why);
  // A call to it has failed. Until its next report it gets nothing new.
  void doubt(EngineIndex engine);
  // It has loaded an adapter, or unloaded it, and its report will say so in a moment.
  void expect_adapter(EngineIndex engine, const std::string& address, const std::string& name,
                      bool loaded);

  Choice choose(const Wanted& wanted, TimePoint now);
  // Nobody accepts it now, but an engine that has the model was heard since then, or has only
  // failed a call: it is not known to be gone.
  bool may_be_back(const Wanted& wanted, TimePoint heard_since) const;
  // Engines that accept have the model, all of them with other weights than Wanted::weights.
  bool has_others_only(const Wanted& wanted) const;
  // Of an engine that choose() has just named, before sent(). `others`: looks at all engines.
  RouteReasons reasons(const Wanted& wanted, EngineIndex chosen, bool others, TimePoint now);
  // Of every adapter that is known, in the order of their names: who has it on its device.
  struct AdapterPlaces {
    std::string name;
    std::int32_t rank;
    std::int64_t bytes;
    std::int64_t engines;               // that have it at all
    std::vector<EngineIndex> resident;  // on the device, or on its way there
    std::vector<EngineIndex> pinned;
  };
  std::vector<AdapterPlaces> adapter_places() const;
  // Who else could serve it: engines that accept and have the model, without `chosen`. First where
  // its adapter is nearest to the device, then where least is asked. Asks no policy, as some count
  // what they chose.
  std::vector<EngineIndex> others(const Wanted& wanted, EngineIndex chosen) const;
  // `as`: the engine's view, and what else is to come there. Nothing: it accepts nothing, or has no
  // such model.
  std::optional<MoveCost> move_cost(const Wanted& wanted, EngineIndex to, const EngineView& as,
                                    TimePoint now) const;
  SentId sent(EngineIndex engine, const Wanted& wanted, TimePoint now);
  void ended(EngineIndex engine, SentId id);

  const std::vector<EngineState>& engines() const { return engines_; }
  const EngineView& view(EngineIndex engine) const { return views_[engine.index()]; }
  std::string_view policy() const { return policy_->name(); }

 private:
  // A name that requests may call: a base model or an adapter.
  struct Model {
    ClusterAdapterId adapter;  // not valid: a base
    std::int32_t rank = 0;
    std::int64_t bytes = 0;
    bool offered = false;  // to every engine
    std::string offered_digest;
    std::vector<EngineIndex> engines;  // that have it, up or not
  };
  struct Sent {
    ClusterAdapterId adapter;
    std::int32_t rank = 0;
    PrefillLoad prefill;
    std::int64_t kv_tokens = 0;
    TimePoint at{};
  };
  struct Held {
    AdapterTier tier = AdapterTier::absent;
    std::int32_t active = 0;  // as reported, like `pinned`
    bool pinned = false;
    std::string digest = {};  // stays while the engine is set aside
  };
  // What the index and the views are made from, of one engine.
  struct Books {
    std::unordered_map<std::string, Held> adapters;
    std::map<SentId, Sent> sent;  // not in a report yet, oldest first
  };

  using Models = std::unordered_map<std::string, Model>;

  Model& model(const std::string& name, bool is_adapter);
  static bool is_unknown(const Model& model) { return model.engines.empty() && !model.offered; }
  Models::iterator forget(Models::iterator model);
  ClusterAdapterId take_id(const std::string& name);
  void list(const std::string& name, bool is_adapter, EngineIndex engine);
  void unlist(const std::string& name, EngineIndex engine);
  void take_adapter(EngineIndex engine, const AdapterReport& adapter);
  void drop_adapter(EngineIndex engine, const std::string& name);
  void drop_all_adapters(EngineIndex engine);
  void forget_sent(EngineIndex engine, TimePoint sent_before);
  void refresh(EngineIndex engine);
  // cluster_weights.cpp
  bool serves(const Model* model, EngineIndex engine) const;
  bool has_weights(const Wanted& wanted, const Model* model, EngineIndex engine) const;
  bool may_have_weights(const Wanted& wanted, const Model* model) const;
  void warn_of_other_base(EngineIndex engine, const EngineReport& report) const;
  void warn_of_other_adapters(EngineIndex engine, const std::vector<AdapterReport>& adapters) const;
  static void count(const Sent& sent, EngineView& view);
  RouteRequest route_request(const Wanted& wanted, const Model* model, TimePoint now) const;

  std::unique_ptr<Policy> policy_;
  std::vector<EngineState> engines_;
  std::vector<EngineView> views_;  // of each engine
  std::vector<Books> books_;       // of each engine
  Models models_;
  std::unordered_set<std::int32_t> taken_ids_;  // of adapters
  AdapterIndex index_;
  PrefixIndex prefixes_;
  SentId next_sent_ = 1;
  std::vector<EngineIndex> masked_;  // scratch of choose()
};

}  // namespace tandem
