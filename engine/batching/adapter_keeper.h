// Adapters that are to be on the device for good (pinned ones; all in adapter_mode cached): brings
// them there and tells who waits. Where there is no memory add() and advance() throw: who was to be
// added hears a broken promise, all others go on waiting. The engine thread alone uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "engine/adapters/adapter_store.h"
#include "engine/adapters/device/device_tier.h"
#include "engine/batching/adapter_gate.h"
#include "engine/batching/inbox.h"

namespace tandem {

class AdapterKeeper {
 public:
  // All outlive it.
  AdapterKeeper(AdapterStore& store, DeviceTier& device, const AdapterGate& gate,
                std::int64_t max_model_len)
      : store_(&store), device_(&device), gate_(&gate), max_model_len_(max_model_len) {}

  void add(KeepRequest request) { requests_.push_back(std::move(request)); }
  // As far as each can go now; call when the device tier has been polled.
  void advance();
  // Nobody waits any longer.
  void end(const Status& why) noexcept;

 private:
  std::optional<Status> advance(const KeepRequest& request);  // nothing: not yet

  AdapterStore* store_;
  DeviceTier* device_;
  const AdapterGate* gate_;
  std::int64_t max_model_len_;
  std::vector<KeepRequest> requests_;
};

}  // namespace tandem
