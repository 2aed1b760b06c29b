// Loads adapters that are to stay on the device (pinned ones; all in adapter_mode cached), and
// answers the threads that wait for that. If memory runs out, add() and advance() throw: the
// promise of an adapter that was not added is broken, and all others go on waiting. Only the engine
// thread may use it.
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
  // All arguments outlive it.
  AdapterKeeper(AdapterStore& store, DeviceTier& device, const AdapterGate& gate,
                std::int64_t max_model_len)
      : store_(&store), device_(&device), gate_(&gate), max_model_len_(max_model_len) {}

  void add(KeepRequest request) { requests_.push_back(std::move(request)); }
  // Advances each request as far as possible; call it after the device tier's poll().
  void advance();
  // Answers all requests with `why`.
  void end(const Status& why) noexcept;

 private:
  std::optional<Status> advance(const KeepRequest& request);  // no value: not ready yet

  AdapterStore* store_;
  DeviceTier* device_;
  const AdapterGate* gate_;
  std::int64_t max_model_len_;
  std::vector<KeepRequest> requests_;
};

}  // namespace tandem
