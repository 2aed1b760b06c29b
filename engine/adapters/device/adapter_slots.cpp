#include "engine/adapters/device/adapter_slots.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tandem {
namespace {

std::int64_t most_chunks(const ModelSpec& spec, DType dtype, std::int32_t max_rank,
                         const PoolLayout& layout) {
  std::int64_t elements = 0;
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    for (std::size_t module = 0; module < spec.modules.size(); ++module) {
      const std::int64_t most = spec.modules[module].by_token ? spec.vocab_size : max_rank;
      const std::int64_t rank = module_rank(spec, layer, module, most);
      // Rows of B are padded to 16 bytes, matrices to 64.
      elements +=
          rank * module_in(spec, layer, module) + (rank + 16) * module_out(spec, layer, module);
      elements += 2 * 32;
    }
  }
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
  return std::max<std::int64_t>(1, layout.chunks_for(bytes));
}

}  // namespace

std::int64_t most_chunks_of_row(std::int32_t num_slots) {
  constexpr std::int64_t kTableBytes = std::int64_t{256} << 20;
  const std::int64_t row = kTableBytes / std::max(num_slots, 1);
  return row / static_cast<std::int64_t>(sizeof(ChunkId));
}

std::size_t AdapterSlots::matrices_bytes() const {
  return static_cast<std::size_t>(num_layers_ * num_modules_) * sizeof(LoraMatrix);
}
std::size_t AdapterSlots::chunks_bytes() const {
  return static_cast<std::size_t>((max_chunks_ + 1) / 2 * 2) * sizeof(ChunkId);
}

Result<AdapterSlots> AdapterSlots::create(const TierDevice& on, const ModelSpec& spec, DType dtype,
                                          std::int32_t max_rank, std::int32_t num_slots,
                                          std::int64_t max_chunks) {
  Device& device = *on.device;
  const PoolLayout& layout = on.memory->layout();
  TANDEM_CHECK(num_slots >= 0 && spec.num_layers() > 0 && max_chunks > 0);
  AdapterSlots slots;
  slots.num_layers_ = spec.num_layers();
  slots.num_modules_ = static_cast<std::int64_t>(spec.modules.size());
  slots.max_chunks_ = std::min(
      {max_chunks, most_chunks(spec, dtype, max_rank, layout), most_chunks_of_row(num_slots)});
  if (num_slots == 0) return slots;
  constexpr std::string_view kPurpose = "the adapter tables (lower max_device_adapters)";
  const auto count = static_cast<std::size_t>(num_slots);
  const std::size_t row = slots.matrices_bytes() + slots.chunks_bytes();
  TANDEM_ASSIGN(slots.matrices_, device.allocate(count * slots.matrices_bytes(), kPurpose));
  TANDEM_ASSIGN(slots.chunks_, device.allocate(count * slots.chunks_bytes(), kPurpose));
  const std::size_t words = count * static_cast<std::size_t>(slots.num_layers_ + 1) *
                            kNumLoadParts * sizeof(std::uint32_t);
  TANDEM_ASSIGN(slots.ready_, device.allocate(words, kPurpose));
  TANDEM_ASSIGN(slots.staging_, device.allocate_pinned(std::max(count * row, words), kPurpose));
  for (std::size_t i = 0; i < count; ++i) slots.written_.push_back(device.create_event());
  std::memset(slots.staging_.data(), 0, words);
  TANDEM_ASSIGN(const auto stream, device.create_stream("adapter tables"));
  stream->copy_to_device(slots.ready_.data(), slots.staging_.data(), words);
  TANDEM_TRY(stream->synchronize());
  slots.pages_.base = on.memory->chunk_base();
  slots.pages_.ids = reinterpret_cast<const std::int32_t*>(slots.chunks_.data());
  slots.pages_.slot_stride = static_cast<std::int64_t>(slots.chunks_bytes() / sizeof(ChunkId));
  slots.pages_.shift = layout.chunk_shift;
  return slots;
}

void AdapterSlots::write(Stream& stream, SlotId slot, const Adapter& adapter,
                         std::span<const ChunkId> chunks) {
  TANDEM_CHECK(static_cast<std::int64_t>(chunks.size()) <= max_chunks_, "{} chunks", chunks.size());
  TANDEM_CHECK(static_cast<std::int64_t>(adapter.layers.all().size()) ==
               num_layers_ * num_modules_);
  const auto index = slot.index();
  std::byte* const row = staging_.data() + index * (matrices_bytes() + chunks_bytes());
  written_[index]->synchronize();  // long past, unless the last adapter left within a step
  auto* matrices = reinterpret_cast<LoraMatrix*>(row);
  for (const AdapterMatrix& from : adapter.layers.all()) {
    *matrices++ = {from.a_offset, from.b_offset, from.rank, from.b_stride};
  }
  stream.upload(matrices_.data() + index * matrices_bytes(), row, matrices_bytes());
  if (!chunks.empty()) {
    std::memcpy(row + matrices_bytes(), chunks.data(), chunks.size_bytes());
    stream.upload(chunks_.data() + index * chunks_bytes(), row + matrices_bytes(),
                  chunks.size_bytes());
  }
  stream.record(*written_[index]);
}

AdapterTable AdapterSlots::table() const {
  return {reinterpret_cast<const LoraMatrix*>(matrices_.data()), pages_, {}};
}

const std::uint32_t* AdapterSlots::ready_words() const {
  return reinterpret_cast<const std::uint32_t*>(ready_.data());
}

std::uint32_t* AdapterSlots::ready(SlotId slot, std::int64_t layer) const {
  return reinterpret_cast<std::uint32_t*>(ready_.data()) +
         (slot.value() * (num_layers_ + 1) + layer) * kNumLoadParts;
}

}  // namespace tandem
