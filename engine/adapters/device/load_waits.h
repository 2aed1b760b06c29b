// The loads that each layer of a step waits for, by adapter. The events are looked up, and missing
// pieces enqueued on the load stream, when the step's layer is enqueued.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/adapters/device/load_queue.h"
#include "engine/adapters/served_adapter.h"
#include "engine/model/step/layer_waits.h"
#include "scheduler/planning/coldstart/load_piece.h"

namespace tandem {

// Only one thread at a time may use it, for one step after another.
class LoadWaits final : public LayerWaits {
 public:
  // `loads` outlives it.
  LoadWaits(LoadQueue& loads, std::int64_t num_layers)
      : loads_(&loads), layers_(static_cast<std::size_t>(num_layers)) {}

  bool empty() const { return adapters_.empty(); }
  void clear();
  // `kind`: layer, or b for B alone.
  void add(const AdapterLease& adapter, std::int64_t layer, PieceKind kind);
  // Adds every layer, if the adapter is arriving.
  void add_all(const AdapterLease& adapter);

  void before(std::int64_t layer, Stream& stream) override;

 private:
  struct Wait {
    const ServedAdapter* adapter;
    PieceKind kind;
  };
  LoadQueue* loads_;
  std::vector<AdapterLease> adapters_;     // keeps the adapters alive
  std::vector<std::vector<Wait>> layers_;  // [layers]
};

}  // namespace tandem
