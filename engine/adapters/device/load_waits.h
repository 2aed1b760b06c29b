// The layers of a step that wait for loads under way, by name; the events are looked up, and the
// pieces put on the load stream, when the step's layer is enqueued.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/adapters/device/load_queue.h"
#include "engine/adapters/served_adapter.h"
#include "engine/model/step/layer_waits.h"
#include "scheduler/coldstart/load_piece.h"

namespace tandem {

// One thread at a time uses it, for one step after another.
class LoadWaits final : public LayerWaits {
 public:
  // `loads` outlives it.
  LoadWaits(LoadQueue& loads, std::int64_t num_layers)
      : loads_(&loads), layers_(static_cast<std::size_t>(num_layers)) {}

  bool empty() const { return adapters_.empty(); }
  void clear();
  // `kind`: layer, or B alone.
  void add(const AdapterLease& adapter, std::int64_t layer, PieceKind kind);
  // Every layer, if any is still to come.
  void add_all(const AdapterLease& adapter);

  void before(std::int64_t layer, Stream& stream) override;

 private:
  struct Wait {
    const ServedAdapter* adapter;
    PieceKind kind;
  };
  LoadQueue* loads_;
  std::vector<AdapterLease> adapters_;     // held
  std::vector<std::vector<Wait>> layers_;  // [layers]
};

}  // namespace tandem
