// The tables in device memory from which kernels read where an adapter is and which parts of it
// have arrived, one row per slot. Only one thread at a time may use it.
//
// The ready words [slots][layers + 1][kNumLoadParts] hold the generation of the load whose part has
// arrived, so that a slot can be used again without clearing them. The row after the last layer
// stands for the whole adapter.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids/slot_id.h"
#include "base/ids/ticket.h"
#include "base/status.h"
#include "engine/loader/adapter.h"
#include "engine/memory/chunk_table.h"
#include "engine/memory/kv_cache.h"
#include "engine/model/model.h"
#include "gpu/device.h"
#include "gpu/ops.h"

namespace tandem {

// A device of a model; lists of them are in the order of ranks.
struct TierDevice {
  Device* device = nullptr;
  const KvCache* memory = nullptr;
};

// The chunks of an adapter's row, if there are so many rows: all take at most 256 MiB. Few adapters
// are larger, with a high rank or whole modules of a large model.
std::int64_t most_chunks_of_row(std::int32_t num_slots);

class AdapterSlots {
 public:
  // Rows for `num_slots` adapters of up to `max_rank` of a model, one of whose shards has the shape
  // `spec`, in at most `max_chunks` and most_chunks_of_row() chunks. The device and its memory
  // outlive the slots.
  static Result<AdapterSlots> create(const TierDevice& device, const ModelSpec& spec, DType dtype,
                                     std::int32_t max_rank, std::int32_t num_slots,
                                     std::int64_t max_chunks);

  // Enqueues the copies of a slot's rows: on the load stream, before the adapter's bytes, or on the
  // stream that reads them, before the first step that does.
  void write(Stream& stream, SlotId slot, const Adapter& adapter, std::span<const ChunkId> chunks);

  AdapterTable table() const;

  const std::uint32_t* ready_words() const;
  // The two words of a layer; `layer` = number of layers: those of the whole adapter.
  std::uint32_t* ready(SlotId slot, std::int64_t layer) const;

 private:
  std::size_t matrices_bytes() const;
  std::size_t chunks_bytes() const;

  std::int64_t num_layers_ = 0;
  std::int64_t num_modules_ = 0;
  std::int64_t max_chunks_ = 0;
  LoraPages pages_;
  Buffer matrices_;                              // [slots][layers][modules] LoraMatrix
  Buffer chunks_;                                // [slots][max_chunks] i32
  Buffer ready_;                                 // pinned, a part for each slot: matrices, chunks
  Buffer staging_;                               // [slots]: staging has been read
  std::vector<std::unique_ptr<Event>> written_;  // [slots]: staging has been read
};

}  // namespace tandem
