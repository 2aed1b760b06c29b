#include "engine/model/weights/model_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/model/weights/source_names.h"

namespace tandem {
namespace {

// Reads elements [begin, begin + count) of the piece. If the piece does not have the tensor's
// columns as they are, the elements must be whole rows of it: a few rows at a time are read with
// all columns, as files are read in contiguous runs, and then cut and spread.
Status read_piece(const WeightSource& source, const WeightPiece& piece, std::size_t begin,
                  std::size_t count, std::byte* target) {
  const auto all_cols = static_cast<std::size_t>(piece.all_cols());
  const auto cols = static_cast<std::size_t>(piece.cols());
  const DType dtype = piece.target.dtype;
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
  // Large enough that all reading threads have work where numbers are dequantised.
  constexpr std::size_t kBlockBytes = std::size_t{32} << 20;
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
      for (const SpreadRun& run : piece.columns) {
        const std::size_t from = r * all_cols + static_cast<std::size_t>(run.from);
        std::memcpy(target + static_cast<std::size_t>(run.to) * size_of(dtype),
                    block.data() + from * size_of(dtype),
                    static_cast<std::size_t>(run.count) * size_of(dtype));
      }
      target += cols * size_of(dtype);
    }
  }
  return {};
}

// For devices whose memory the CPU cannot write: reads through pinned buffers, one of which is
// filled while the others are copied.
Status read_through_staging(const WeightSource& source, const std::vector<WeightPiece>& pieces,
                            Device& device, const LoadProgress& progress, std::size_t total) {
  // 32 MiB are copied at the link's full speed, and have enough chunks for every reading thread.
  constexpr std::size_t kSlots = 3;
  constexpr std::size_t kSlotBytes = std::size_t{32} << 20;
  TANDEM_ASSIGN(const Buffer staging,
                device.allocate_pinned(kSlots * kSlotBytes, "the weight staging buffer"));
  TANDEM_ASSIGN(const auto stream, device.create_stream("weights"));
  std::array<std::unique_ptr<Event>, kSlots> copied;  // the last copy from each slot
  for (auto& event : copied) event = device.create_event();
  std::size_t slot = 0;
  std::size_t done = 0;
  for (const WeightPiece& piece : pieces) {
    const std::size_t size = size_of(piece.target.dtype);
    const auto count = static_cast<std::size_t>(piece.target.num_elements());
    const auto row = static_cast<std::size_t>(piece.cols());
    std::size_t most = kSlotBytes / size / row * row;
    if (most == 0 && piece.has_whole_rows()) most = kSlotBytes / size;
    if (most == 0) {
      return invalid("{}: rows of {} elements are too wide to be cut for several devices",
                     piece.name, row);
    }
    for (std::size_t begin = 0; begin < count; begin += most) {
      const std::size_t part = std::min(most, count - begin);
      std::byte* buffer = staging.data() + slot * kSlotBytes;
      copied[slot]->synchronize();
      TANDEM_TRY(read_piece(source, piece, begin, part, buffer));
      stream->copy_to_device(static_cast<std::byte*>(piece.target.data) + begin * size, buffer,
                             part * size);
      stream->record(*copied[slot]);
      slot = (slot + 1) % kSlots;
      done += part * size;
      if (progress) progress(done, total);
    }
  }
  return stream->synchronize();
}

// Refuses weights of a format that the device does not compute, before any is read.
Status check_formats(const WeightLayout& layout, const Device& device) {
  const std::span<const WeightFormat> computed = device.weight_formats();
  const auto check = [&](const Weight& weight) -> Status {
    if (std::ranges::find(computed, weight.format) != computed.end()) return {};
    std::vector<std::string_view> names;
    for (const WeightFormat format : computed) names.push_back(to_string(format));
    return invalid("{} does not compute weights of format '{}'; take a checkpoint of these: {}",
                   device.info().name, to_string(weight.format), fmt::join(names, ", "));
  };
  for (const LayerWeights& layer : layout.layers) {
    for (const Weight* const weight : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down,
                                       &layer.input_gate, &layer.input_projection}) {
      TANDEM_TRY(check(*weight));
    }
  }
  TANDEM_TRY(check(layout.layer_inputs.projection));
  return check(layout.head);
}

// The numbers by which layers multiply the residual, which the CPU passes to the operations.
Status read_output_scales(const ModelSpec& spec, const WeightSource& source, WeightLayout& layout) {
  for (std::int64_t i = 0; i < spec.num_layers(); ++i) {
    if (!spec.layer(i).output_scale) continue;
    const std::string name = std::string(spec.names.root) +
                             fmt::format(fmt::runtime(spec.names.layer), i) +
                             std::string(spec.names.output_scale);
    constexpr std::int64_t kOne[] = {1};
    float& scale = layout.layers[static_cast<std::size_t>(i)].output_scale;
    TANDEM_TRY(source.read(name, kOne, DType::f32, &scale));
  }
  return {};
}

// The ranks after the first leave out biases that only it adds, so all of the model's tensors
// count.
Status check_all_used(const WeightSource& source, const ModelSpec& spec) {
  std::set<std::string, std::less<>> used;
  for (WeightPiece& piece : lay_out_weights(spec, {}, DType::bf16, nullptr).pieces) {
    if (!piece.name.empty()) used.insert(std::move(piece.name));
  }
  return source.check_all_used(used);
}

}  // namespace

std::size_t ModelWeights::bytes_needed(const ModelSpec& spec, Shard shard, DType dtype) {
  return lay_out_weights(spec, shard, dtype, nullptr).bytes;
}

Result<ModelWeights> ModelWeights::load(const ModelSpec& shape, Shard shard,
                                        const WeightSource& source, DType dtype, Device& device,
                                        const LoadProgress& progress) {
  ModelSpec spec = shape;
  spec.names = names_in(source, spec.names);
  TANDEM_TRY(check_all_used(source, spec));
  ModelWeights weights;
  const WeightLayout measured = lay_out_weights(spec, shard, dtype, nullptr);
  TANDEM_TRY(check_formats(measured, device));
  const std::size_t total = measured.bytes;
  TANDEM_ASSIGN(weights.buffer_, device.allocate(total, "the model's weights"));
  weights.layout_ = lay_out_weights(spec, shard, dtype, weights.buffer_.data());
  TANDEM_TRY(read_output_scales(spec, source, weights.layout_));
  const std::vector<WeightPiece> pieces = std::exchange(weights.layout_.pieces, {});
  if (!weights.buffer_.host_visible()) {
    TANDEM_TRY(read_through_staging(source, pieces, device, progress, total));
    return weights;
  }
  for (const WeightPiece& piece : pieces) {
    TANDEM_TRY(read_piece(source, piece, 0, static_cast<std::size_t>(piece.target.num_elements()),
                          static_cast<std::byte*>(piece.target.data)));
    const auto done =
        static_cast<std::byte*>(piece.target.data) - weights.buffer_.data() +
        piece.target.num_elements() * static_cast<std::ptrdiff_t>(size_of(piece.target.dtype));
    if (progress) progress(static_cast<std::size_t>(done), total);
  }
  if (progress) progress(total, total);
  return weights;
}

}  // namespace tandem
