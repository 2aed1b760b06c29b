// The engines that could serve one request: now, or perhaps soon, with the weights that its answer
// began with.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/cluster/members/cluster.h"

namespace tandem {

// The cost of moving a stream to another engine, and its load there.
struct MoveCost {
  double pause_s = 0;  // expected silence of the stream
  bool cold = false;   // its adapter is not on that engine's device
  PrefillLoad prefill;
  std::int64_t kv_tokens = 0;
  std::int64_t load_bytes = 0;  // bytes of the adapter if it is cold
};

// For use before the next change of the cluster.
class EngineSearch {
 public:
  // Both outlive it.
  EngineSearch(const Cluster& cluster, const Wanted& wanted);

  // Null: any engine's base, or a model that no engine has. Of several adapters the first.
  const ClusterModel* model() const { return model_; }
  // Whether some engine has, or had, the model, or can load it; of several, each of them.
  bool is_known() const { return is_known_; }

  // Both use the engine's last report, whether it is up or not. An engine that serves the model has
  // the others of several adapters, too.
  bool serves(EngineIndex engine) const {
    return model_ == nullptr || (model_->is_served_by(engine) && serves_others(engine));
  }
  bool serves_others(EngineIndex engine) const;
  bool has_weights(EngineIndex engine) const;
  // Whether an engine that there is, or that may be back, has the weights.
  bool may_have_weights() const;
  // Whether an engine with the model that does not accept now has reported since `heard_since`, or
  // has only failed a call: it is not known to be gone.
  bool may_be_back(TimePoint heard_since) const;
  // Whether engines accept and have the model, but all with other weights than Wanted::weights.
  bool has_others_only() const;
  // The other engines that could serve the request: they accept and have the model. They are sorted
  // by how near the adapter is to the device, then by fewest requests. No policy is asked, because
  // some policies count their choices.
  std::vector<EngineIndex> others(EngineIndex chosen) const;

  // The request as policies see it, without prefixes.
  RouteRequest request(TimePoint now) const;
  // `as`: the engine's view with all else that will move there. Returns nothing if the engine does
  // not accept or lacks the model.
  std::optional<MoveCost> move_cost(EngineIndex to, const EngineView& as, TimePoint now) const;

 private:
  const Cluster& cluster_;
  const Wanted& wanted_;
  const ClusterModel* model_ = nullptr;
  std::vector<const ClusterModel*> others_;  // all but the first of several adapters
  bool is_known_ = false;
};

}  // namespace tandem
