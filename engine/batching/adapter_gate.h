// Decides which waiting sequences may run as far as their adapters are concerned, and which
// adapters are loaded next.
//
// Loads start in the order in which the sequences wait. If there is no room for one, no sequence
// behind it gets a load first, and room is made for it: the least recently used adapters, as many
// as it needs, take no new sequences from behind it, so that they become idle and can be evicted.
// All other sequences behind it go on.
//
// Loads that are started together travel in a planned order, and their adapters begin in planned
// steps, one after another, so that a burst does not wait for its last load.
//
// Only the engine thread may use it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/adapters/adapter_store.h"
#include "engine/adapters/device/device_tier.h"
#include "engine/batching/batch/admission_gate.h"
#include "engine/handoff/handoff.h"
#include "engine/service/adapter_mode.h"

namespace tandem {

class AdapterGate final : public AdmissionGate {
 public:
  // All arguments outlive it.
  AdapterGate(AdapterMode mode, AdapterStore& store, DeviceTier& device, PagePool& pool)
      : mode_(mode), store_(&store), device_(&device), pool_(&pool) {}

  // Plans the steps in which adapters with waiting sequences begin, for adapters that are loading
  // (`waiting`) and adapters whose loads are reserved (`loads`), and the order of the latter.
  // Without a plan all begin at once, and loads go in the order of reservation.
  using Plan = std::function<AdmissionPlan(std::vector<AdapterRows> waiting,
                                           std::vector<AdapterRows> loads)>;
  void set_plan(Plan plan) { plan_ = std::move(plan); }
  // Sets the function that wakes the workers. It is called before loads are ordered for a step that
  // is planned to hand rows over, and after they are ordered for one that is planned to wait but
  // may still hand rows over; without a plan, before all loads.
  void set_wake(std::function<void()> wake) { wake_ = std::move(wake); }

  // Starts all loads that can be started for the waiting sequences, in their order. Returns the
  // sequences that can never run, with the reason.
  std::vector<std::pair<Sequence*, Status>> request(
      const std::vector<std::unique_ptr<Sequence>>& waiting);

  // Resets the state of a request() that an exception ended, as loads that were in flight may be
  // gone.
  void restart() noexcept;

  // An error if the adapter cannot be kept on the device, with the reason.
  Status check_keep(const ServedAdapter& adapter, std::int64_t max_model_len) const;

  void plan_begins() override { ++step_; }
  bool enter(Sequence& sequence) override;
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
  const Sequence* blocked_ = nullptr;  // the first sequence for whose adapter there is no room
  std::int64_t missing_pages_ = 0;     // needed in addition to those that `draining_` will free
  std::vector<AdapterLease> draining_;
  // Adapters that are loading or loaded, with the step (a number of plans) from which on their
  // sequences may enter.
  struct Turn {
    AdapterLease adapter;
    std::uint64_t step;
  };
  std::vector<Turn> turns_;  // in the order of their loads
  std::uint64_t step_ = 0;   // the step that is planned, or was last
};

}  // namespace tandem
