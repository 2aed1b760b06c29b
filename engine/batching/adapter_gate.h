// Which waiting sequences may run as far as their adapters go, and whose adapter is loaded next.
//
// Loads are started in the order in which the sequences wait. When there is no room for one, its
// turn is kept: none behind it gets a load before it, and the sequences behind it may no longer
// take what it needs: the adapters used longest ago, as many as it needs, take no new sequences
// from behind it, so that they fall idle and make room. All others behind it go on.
//
// Loads that are started together travel in the order that somebody plans for them, and their
// adapters begin in turns, a step each: a burst does not wait for its last load.
//
// The engine thread alone uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/adapters/adapter_store.h"
#include "engine/adapters/device/device_tier.h"
#include "engine/batching/batch/continuous_batcher.h"
#include "engine/handoff/handoff.h"
#include "engine/service/adapter_mode.h"

namespace tandem {

class AdapterGate final : public AdmissionGate {
 public:
  // All outlive it.
  AdapterGate(AdapterMode mode, AdapterStore& store, DeviceTier& device, PagePool& pool)
      : mode_(mode), store_(&store), device_(&device), pool_(&pool) {}

  // In which turns adapters begin for which sequences wait, those whose loads are on their way
  // (`waiting`) and those whose loads are reserved, and the order of the latter; none: all at once,
  // loads as they come.
  using Plan = std::function<AdmissionPlan(std::vector<AdapterRows> waiting,
                                           std::vector<AdapterRows> loads)>;
  void set_plan(Plan plan) { plan_ = std::move(plan); }
  // Before loads are ordered for a step that is to hand something over; behind them where it is to
  // wait and may yet hand something over; without a plan, before any.
  void set_wake(std::function<void()> wake) { wake_ = std::move(wake); }

  // Starts what loads can be started for the sequences waiting, in their order. Returns those that
  // never will run, with the reason.
  std::vector<std::pair<Sequence*, Status>> request(
      const std::vector<std::unique_ptr<Sequence>>& waiting);

  // Forgets what an exception has left of a request(): loads that were on their way may have gone.
  void restart() noexcept;

  // Why an adapter cannot be kept on the device for good, if it cannot.
  Status check_keep(const ServedAdapter& adapter, std::int64_t max_model_len) const;

  void plan_begins() override { ++step_; }
  bool enter(const Sequence& sequence) override;
  void leave(const Sequence& sequence) override;
  void begins(const Sequence& sequence) override;
  bool is_in_doubt(const Sequence& sequence) const override;
  bool is_waiting() const override { return refused_ || device_->is_expecting(); }

 private:
  void forget_turns(const std::vector<std::unique_ptr<Sequence>>& waiting);
  void enqueue_loads(const std::vector<std::unique_ptr<Sequence>>& waiting,
                     DeviceTier::Turn& loads);
  Status check_fits(const Sequence& sequence, std::int32_t kept_pages) const;
  void hold_room_for(const ServedAdapter& adapter);
  bool holds_back(const Sequence& sequence) const;
  bool has_turn(const ServedAdapter& adapter) const;

  AdapterMode mode_;
  Plan plan_;
  std::function<void()> wake_;
  AdapterStore* store_;
  DeviceTier* device_;
  PagePool* pool_;
  bool refused_ = false;               // a sequence since the last request()
  const Sequence* blocked_ = nullptr;  // the first for whose adapter there was no room
  std::int64_t missing_pages_ = 0;     // that its adapter needs beyond what `draining_` will give
  std::vector<AdapterLease> draining_;
  // On their way or there, with the step (a number of plans) from which on their sequences may
  // enter.
  struct Turn {
    AdapterLease adapter;
    std::uint64_t step;
  };
  std::vector<Turn> turns_;  // in the order of their loads
  std::uint64_t step_ = 0;   // that is planned, or was last
};

}  // namespace tandem
