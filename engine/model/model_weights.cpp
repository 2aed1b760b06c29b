#include "engine/model/model_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "base/check.h"

namespace tandem {
namespace {

// One tensor of the checkpoint and the place in device memory where it goes.
struct Piece {
  std::string name;
  TensorView target;
};

// Lays tensors out one after another. With a null base it only measures.
class Layout {
 public:
  Layout(std::byte* base, DType dtype) : base_(base), dtype_(dtype) {}

  // A tensor made of parts of the checkpoint stacked along the first dimension.
  struct Part {
    std::string name;
    std::int64_t rows;
  };
  TensorView matrix(const std::vector<Part>& parts, std::int64_t cols) {
    std::int64_t rows = 0;
    for (const Part& part : parts) rows += part.rows;
    const TensorView whole(take(rows * cols), dtype_, {rows, cols});
    std::int64_t row = 0;
    for (const Part& part : parts) {
      pieces_.push_back({part.name, whole.slice_rows(row, part.rows)});
      row += part.rows;
    }
    return whole;
  }
  TensorView vector(const std::vector<Part>& parts) {
    std::int64_t size = 0;
    for (const Part& part : parts) size += part.rows;
    const TensorView whole(take(size), dtype_, {size});
    std::int64_t at = 0;
    for (const Part& part : parts) {
      pieces_.push_back({part.name, whole.slice_cols(at, part.rows)});
      at += part.rows;
    }
    return whole;
  }

  std::size_t bytes() const { return offset_; }
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  std::byte* take(std::int64_t elements) {
    std::byte* result = base_ + offset_;
    // 256 bytes: what cuBLAS and the vector loads of every device want at most.
    offset_ += (static_cast<std::size_t>(elements) * size_of(dtype_) + 255) / 256 * 256;
    return result;
  }

  std::byte* base_;
  DType dtype_;
  std::size_t offset_ = 0;
  std::vector<Piece> pieces_;
};

struct Views {
  TensorView embedding, head, final_norm;
  std::vector<LayerWeights> layers;
};

LayerWeights lay_out_layer(Layout& layout, const ModelConfig& c, std::int64_t index) {
  const std::string prefix = fmt::format("model.layers.{}.", index);
  const auto attention = [&](const char* name) { return prefix + "self_attn." + name; };
  LayerWeights w;
  w.input_norm = layout.vector({{prefix + "input_layernorm.weight", c.hidden_size}});
  w.qkv = layout.matrix({{attention("q_proj.weight"), c.q_size()},
                         {attention("k_proj.weight"), c.kv_size()},
                         {attention("v_proj.weight"), c.kv_size()}},
                        c.hidden_size);
  if (c.qkv_bias) {
    w.qkv_bias = layout.vector({{attention("q_proj.bias"), c.q_size()},
                                {attention("k_proj.bias"), c.kv_size()},
                                {attention("v_proj.bias"), c.kv_size()}});
  }
  if (c.qk_norm) {
    w.q_norm = layout.vector({{attention("q_norm.weight"), c.head_dim}});
    w.k_norm = layout.vector({{attention("k_norm.weight"), c.head_dim}});
  }
  w.o = layout.matrix({{attention("o_proj.weight"), c.hidden_size}}, c.q_size());
  if (c.o_bias) w.o_bias = layout.vector({{attention("o_proj.bias"), c.hidden_size}});
  w.post_norm = layout.vector({{prefix + "post_attention_layernorm.weight", c.hidden_size}});
  w.gate_up = layout.matrix(
      {{prefix + "mlp.gate_proj.weight", c.ffn_size}, {prefix + "mlp.up_proj.weight", c.ffn_size}},
      c.hidden_size);
  w.down = layout.matrix({{prefix + "mlp.down_proj.weight", c.hidden_size}}, c.ffn_size);
  return w;
}

Views lay_out(Layout& layout, const ModelConfig& c) {
  Views views;
  views.embedding = layout.matrix({{"model.embed_tokens.weight", c.vocab_size}}, c.hidden_size);
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    views.layers.push_back(lay_out_layer(layout, c, i));
  }
  views.final_norm = layout.vector({{"model.norm.weight", c.hidden_size}});
  views.head = c.tie_word_embeddings
                   ? views.embedding
                   : layout.matrix({{"lm_head.weight", c.vocab_size}}, c.hidden_size);
  return views;
}

std::span<const std::int64_t> shape_of(const Piece& piece) {
  return {piece.target.dim.data(), static_cast<std::size_t>(piece.target.rank)};
}

// Devices whose memory the CPU cannot write: through pinned buffers, part by part, one being read
// while those before it are still copied.
Status read_through_staging(const WeightSource& source, const std::vector<Piece>& pieces,
                            Device& device, const LoadProgress& progress, std::size_t total) {
  // 32 MiB: copied at the link's full speed, and enough chunks for every thread that reads.
  constexpr std::size_t kSlots = 3;
  constexpr std::size_t kSlotBytes = std::size_t{32} << 20;
  TANDEM_ASSIGN(const Buffer staging,
                device.allocate_pinned(kSlots * kSlotBytes, "the weight staging buffer"));
  TANDEM_ASSIGN(const auto stream, device.create_stream("weights"));
  std::array<std::unique_ptr<Event>, kSlots> copied;  // the last copy out of each slot
  for (auto& event : copied) event = device.create_event();
  std::size_t slot = 0;
  std::size_t done = 0;
  for (const Piece& piece : pieces) {
    const std::size_t size = size_of(piece.target.dtype);
    const auto count = static_cast<std::size_t>(piece.target.num_elements());
    for (std::size_t begin = 0; begin < count; begin += kSlotBytes / size) {
      const std::size_t part = std::min(kSlotBytes / size, count - begin);
      std::byte* buffer = staging.data() + slot * kSlotBytes;
      copied[slot]->synchronize();
      TANDEM_TRY(
          source.read_part(piece.name, shape_of(piece), piece.target.dtype, begin, part, buffer));
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

}  // namespace

std::size_t ModelWeights::bytes_needed(const ModelConfig& config, DType dtype) {
  Layout layout(nullptr, dtype);
  lay_out(layout, config);
  return layout.bytes();
}

Result<ModelWeights> ModelWeights::load(const ModelConfig& config, const WeightSource& source,
                                        DType dtype, Device& device, const LoadProgress& progress) {
  ModelWeights weights;
  const std::size_t total = bytes_needed(config, dtype);
  TANDEM_ASSIGN(weights.buffer_, device.allocate(total, "the model's weights"));
  Layout layout(weights.buffer_.data(), dtype);
  Views views = lay_out(layout, config);
  weights.embedding_ = views.embedding;
  weights.head_ = views.head;
  weights.final_norm_ = views.final_norm;
  weights.layers_ = std::move(views.layers);

  if (!weights.buffer_.host_visible()) {
    TANDEM_TRY(read_through_staging(source, layout.pieces(), device, progress, total));
    return weights;
  }
  for (const Piece& piece : layout.pieces()) {
    TANDEM_TRY(source.read(piece.name, shape_of(piece), piece.target.dtype, piece.target.data));
    const auto done = static_cast<std::byte*>(piece.target.data) - weights.buffer_.data() +
                      piece.target.num_elements() * static_cast<std::ptrdiff_t>(size_of(dtype));
    if (progress) progress(static_cast<std::size_t>(done), total);
  }
  if (progress) progress(total, total);
  return weights;
}

}  // namespace tandem
