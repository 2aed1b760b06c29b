#include "engine/model/weights/weight_reading.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "engine/loader/quantised/packed_rows.h"
#include "engine/model/weights/packed_columns.h"

namespace tandem {
namespace {

// Rows with all columns, before they are cut: so many bytes that all reading threads have work
// where numbers are dequantised.
constexpr std::size_t kBlockBytes = std::size_t{32} << 20;

// Reads elements [begin, begin + count) of a dense piece. If the piece does not have the tensor's
// columns as they are, the elements must be whole rows of it: a few rows at a time are read with
// all columns, as files are read in contiguous runs, and then cut and spread.
Status read_dense(const WeightSource& source, const WeightPiece& piece, std::size_t begin,
                  std::size_t count, std::byte* target) {
  const auto all_cols = static_cast<std::size_t>(piece.all_cols());
  const auto cols = static_cast<std::size_t>(piece.cols());
  const DType dtype = piece.target.data.dtype;
  const std::size_t first = static_cast<std::size_t>(piece.first_row) * all_cols;
  if (piece.name.empty()) {
    std::memset(target, 0, count * size_of(dtype));
    return {};
  }
  if (piece.has_whole_rows()) {
    TANDEM_TRY(source.read_part(piece.name, piece.shape, dtype, first + begin, count, target));
    if (piece.added != 0) {
      TANDEM_CHECK(dtype == DType::f32, "{}: a sum in {}", piece.name, to_string(dtype));
      for (float& value : std::span(reinterpret_cast<float*>(target), count)) value += piece.added;
    }
    return {};
  }
  const std::size_t rows_of_block =
      std::max<std::size_t>(1, kBlockBytes / (all_cols * size_of(dtype)));
  std::vector<std::byte> block(rows_of_block * all_cols * size_of(dtype));
  const std::size_t last_row = (begin + count) / cols;
  for (std::size_t row = begin / cols; row < last_row; row += rows_of_block) {
    const std::size_t rows = std::min(rows_of_block, last_row - row);
    TANDEM_TRY(source.read_part(piece.name, piece.shape, dtype, first + row * all_cols,
                                rows * all_cols, block.data()));
    for (std::size_t r = 0; r < rows; ++r) {
      std::memset(target, 0, cols * size_of(dtype));
      copy_spread(piece.columns, size_of(dtype), block.data() + r * all_cols * size_of(dtype),
                  target);
      target += cols * size_of(dtype);
    }
  }
  return {};
}

// The arrays of some packed rows, one after another in a block of memory.
PackedArrays arrays_in(std::byte* block, const PackedSizes& row_bytes, std::int64_t rows) {
  PackedPointers arrays = {};
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (row_bytes[i] > 0) arrays[i] = block;
    block += row_bytes[i] * rows;
  }
  return arrays_at(arrays);
}

std::int64_t sum_of(const PackedSizes& sizes) {
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) sum += size;
  return sum;
}

// Reads rows [begin, begin + count) of a packed piece.
Status read_packed(const WeightSource& source, const WeightPiece& piece, std::int64_t begin,
                   std::int64_t count, const PackedArrays& target) {
  const WeightForm& form = piece.target.form;
  const std::int64_t first = piece.first_row + begin;
  if (!piece.name.empty() && piece.has_whole_rows()) {
    return source.read_packed(piece.name, piece.shape, first, count, target);
  }
  const PackedSizes sizes = packed_row_bytes(form, piece.cols());
  const PackedPointers arrays = pointers_of(target);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (sizes[i] > 0) std::memset(arrays[i], 0, static_cast<std::size_t>(sizes[i] * count));
  }
  if (piece.name.empty()) return {};
  const PackedSizes stored = packed_row_bytes(form, piece.all_cols());
  const std::int64_t most = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(kBlockBytes) / std::max<std::int64_t>(1, sum_of(stored)));
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(most, count) * sum_of(stored)));
  for (std::int64_t row = 0; row < count; row += most) {
    const std::int64_t rows = std::min(most, count - row);
    const PackedArrays all = arrays_in(block.data(), stored, rows);
    TANDEM_TRY(source.read_packed(piece.name, piece.shape, first + row, rows, all));
    copy_columns(form, piece.columns, rows, all, piece.all_cols(),
                 rows_from(target, form, piece.cols(), row), piece.cols());
  }
  return {};
}

std::size_t bytes_of(const Weight& weight) {
  if (weight.is_dense()) {
    return static_cast<std::size_t>(weight.data.num_elements()) * size_of(weight.data.dtype);
  }
  const PackedSizes sizes = packed_row_bytes(weight.form, weight.packed_cols);
  return static_cast<std::size_t>(sum_of(sizes) * weight.packed_rows);
}

// Writes device memory that the CPU cannot write, through pinned buffers, one of which is filled
// while the others are copied.
class Staging {
 public:
  // 32 MiB are copied at the link's full speed, and have enough chunks for every reading thread.
  static constexpr std::size_t kSlotBytes = std::size_t{32} << 20;

  static Result<Staging> create(Device& device) {
    Staging staging;
    TANDEM_ASSIGN(staging.buffer_, device.allocate_pinned(staging.copied_.size() * kSlotBytes,
                                                          "the weight staging buffer"));
    TANDEM_ASSIGN(staging.stream_, device.create_stream("weights"));
    for (auto& event : staging.copied_) event = device.create_event();
    return staging;
  }

  // A slot whose last copies have ended.
  std::byte* slot() {
    copied_[slot_]->synchronize();
    return buffer_.data() + slot_ * kSlotBytes;
  }
  // Copies from the slot.
  void copy(std::byte* target, const std::byte* from, std::size_t bytes) {
    stream_->copy_to_device(target, from, bytes);
  }
  void next() {
    stream_->record(*copied_[slot_]);
    slot_ = (slot_ + 1) % copied_.size();
  }
  Status finish() { return stream_->synchronize(); }

 private:
  Staging() = default;

  Buffer buffer_;
  std::unique_ptr<Stream> stream_;
  std::array<std::unique_ptr<Event>, 3> copied_;  // the last copies from each slot
  std::size_t slot_ = 0;
};

using Advance = std::function<void(std::size_t bytes)>;

Status stage_dense(const WeightSource& source, const WeightPiece& piece, Staging& staging,
                   const Advance& advance) {
  const TensorView& target = piece.target.data;
  const std::size_t size = size_of(target.dtype);
  const auto count = static_cast<std::size_t>(target.num_elements());
  const auto row = static_cast<std::size_t>(piece.cols());
  std::size_t most = Staging::kSlotBytes / size / row * row;
  if (most == 0 && piece.has_whole_rows()) most = Staging::kSlotBytes / size;
  if (most == 0) {
    return invalid("{}: rows of {} elements are too wide to be cut for several devices", piece.name,
                   row);
  }
  for (std::size_t begin = 0; begin < count; begin += most) {
    const std::size_t part = std::min(most, count - begin);
    std::byte* const slot = staging.slot();
    TANDEM_TRY(read_dense(source, piece, begin, part, slot));
    staging.copy(static_cast<std::byte*>(target.data) + begin * size, slot, part * size);
    staging.next();
    advance(part * size);
  }
  return {};
}

Status stage_packed(const WeightSource& source, const WeightPiece& piece, Staging& staging,
                    const Advance& advance) {
  const WeightForm& form = piece.target.form;
  const PackedSizes sizes = packed_row_bytes(form, piece.cols());
  const std::int64_t most = static_cast<std::int64_t>(Staging::kSlotBytes) / sum_of(sizes);
  if (most == 0) {
    return invalid("{}: rows of {} elements are too wide to be read", piece.name, piece.cols());
  }
  for (std::int64_t row = 0; row < piece.rows(); row += most) {
    const std::int64_t rows = std::min(most, piece.rows() - row);
    const PackedArrays arrays = arrays_in(staging.slot(), sizes, rows);
    TANDEM_TRY(read_packed(source, piece, row, rows, arrays));
    const PackedPointers from = pointers_of(arrays);
    const PackedPointers to = pointers_of(rows_from(piece.target.packed, form, piece.cols(), row));
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (sizes[i] > 0) staging.copy(to[i], from[i], static_cast<std::size_t>(sizes[i] * rows));
    }
    staging.next();
    advance(static_cast<std::size_t>(sum_of(sizes) * rows));
  }
  return {};
}

Status read_through_staging(const WeightSource& source, const WeightLayout& layout, Device& device,
                            const Advance& advance) {
  TANDEM_ASSIGN(Staging staging, Staging::create(device));
  for (const WeightPiece& piece : layout.pieces) {
    TANDEM_TRY(piece.target.is_dense() ? stage_dense(source, piece, staging, advance)
                                       : stage_packed(source, piece, staging, advance));
  }
  for (const SharedPiece& piece : layout.shared) {
    for (std::size_t begin = 0; begin < piece.bytes.size(); begin += Staging::kSlotBytes) {
      const std::size_t bytes = std::min(Staging::kSlotBytes, piece.bytes.size() - begin);
      std::byte* const slot = staging.slot();
      std::memcpy(slot, piece.bytes.data() + begin, bytes);
      staging.copy(piece.target + begin, slot, bytes);
      staging.next();
    }
  }
  return staging.finish();
}

}  // namespace

Status read_weights(const WeightSource& source, const WeightLayout& layout, bool host_visible,
                    Device& device, const LoadProgress& progress) {
  std::size_t done = 0;
  const auto advance = [&](std::size_t bytes) {
    done += bytes;
    if (progress) progress(done, layout.bytes);
  };
  if (!host_visible) return read_through_staging(source, layout, device, advance);
  for (const WeightPiece& piece : layout.pieces) {
    const Weight& target = piece.target;
    if (target.is_dense()) {
      TANDEM_TRY(read_dense(source, piece, 0, static_cast<std::size_t>(target.data.num_elements()),
                            static_cast<std::byte*>(target.data.data)));
    } else {
      TANDEM_TRY(read_packed(source, piece, 0, piece.rows(), target.packed));
    }
    advance(bytes_of(target));
  }
  for (const SharedPiece& piece : layout.shared) {
    std::memcpy(piece.target, piece.bytes.data(), piece.bytes.size());
  }
  if (progress) progress(layout.bytes, layout.bytes);
  return {};
}

}  // namespace tandem
