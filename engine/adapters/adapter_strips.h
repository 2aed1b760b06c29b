// The parts of an adapter that are copied to a device: all of its bytes, or those that a shard
// needs.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/loader/adapter.h"
#include "engine/loader/shard.h"

namespace tandem {

// The layout of an adapter on each of `num_devices` devices, without bytes; on one, that of the
// adapter itself. The matrices are a shard's (loader/shard.h), and of one size on all ranks.
Adapter device_layout(const Adapter& adapter, const ModelSpec& spec, std::int32_t num_devices);

// Bytes that are contiguous on the device: `rows` rows of `row_bytes`, `pitch` bytes apart in the
// adapter.
struct AdapterStrip {
  std::size_t to = 0;    // offset in the device's layout
  std::size_t from = 0;  // offset in the adapter
  std::size_t row_bytes = 0;
  std::size_t rows = 1;
  std::size_t pitch = 0;  // unused for one row
  std::size_t bytes() const { return row_bytes * rows; }
};

// The A matrices of a layer, the B matrices, or both, in as few strips as possible. `part`:
// device_layout() of `adapter`, for a model of shape `spec`; `shape`: that of a shard.
struct LayerParts {
  bool a = true;
  bool b = true;
};
std::vector<AdapterStrip> strips_of_layer(const Adapter& adapter, const Adapter& part,
                                          const ModelSpec& spec, const ModelSpec& shape,
                                          Shard shard, std::size_t layer, LayerParts parts);

}  // namespace tandem
