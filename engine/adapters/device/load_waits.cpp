#include "engine/adapters/device/load_waits.h"

#include <algorithm>

namespace tandem {

void LoadWaits::clear() {
  if (adapters_.empty()) return;
  adapters_.clear();
  for (std::vector<Wait>& layer : layers_) layer.clear();
}

void LoadWaits::add(const AdapterLease& adapter, std::int64_t layer, PieceKind kind) {
  if (std::ranges::find(adapters_, adapter) == adapters_.end()) adapters_.push_back(adapter);
  layers_[static_cast<std::size_t>(layer)].push_back({adapter.get(), kind});
}

void LoadWaits::add_all(const AdapterLease& adapter) {
  if (!loads_->in_flight().arriving(*adapter)) return;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    add(adapter, static_cast<std::int64_t>(layer), PieceKind::layer);
  }
}

void LoadWaits::before(std::int64_t layer, Stream& stream) {
  for (const Wait& wait : layers_[static_cast<std::size_t>(layer)]) {
    loads_->wait(*wait.adapter, layer, wait.kind, stream);
  }
}

}  // namespace tandem
