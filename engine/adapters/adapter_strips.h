// What of an adapter goes onto a device, and from where: all of its bytes, or what a shard needs.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/loader/adapter.h"
#include "engine/loader/shard.h"

namespace tandem {

// The layout of what lies on each device of so many, without bytes: that of the adapter itself, on
// one. The matrices are a shard's (loader/shard.h), which are of one size on all ranks.
Adapter device_layout(const Adapter& adapter, const ModelSpec& config, std::int32_t num_devices);

// Bytes that lie together on the device: `rows` of `row_bytes`, `pitch` bytes apart in the adapter.
struct AdapterStrip {
  std::size_t to = 0;    // byte of the device's layout
  std::size_t from = 0;  // byte of the adapter
  std::size_t row_bytes = 0;
  std::size_t rows = 1;
  std::size_t pitch = 0;  // of no account for one row
  std::size_t bytes() const { return row_bytes * rows; }
};

// The A matrices of a layer, the B matrices, or both, in as few strips as they take. `part` is
// device_layout() of `adapter`, of a model of shape `config`; `shape` that of a shard.
struct LayerParts {
  bool a = true;
  bool b = true;
};
std::vector<AdapterStrip> strips_of_layer(const Adapter& adapter, const Adapter& part,
                                          const ModelSpec& config, const ModelSpec& shape,
                                          Shard shard, std::size_t layer, LayerParts parts);

}  // namespace tandem
