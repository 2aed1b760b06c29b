#include "engine/model/model_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "base/check.h"

namespace tandem {
namespace {

// A tensor of the checkpoint, or a block of it, and the place in device memory where it goes.
struct Piece {
  std::string name;
  std::vector<std::int64_t> shape;  // of all of it
  std::int64_t first_row = 0;
  std::int64_t first_col = 0;
  TensorView target;  // dense

  std::int64_t all_cols() const { return shape.size() == 2 ? shape[1] : 1; }
  std::int64_t cols() const { return target.rank == 2 ? target.cols() : 1; }
  bool has_whole_rows() const { return cols() == all_cols(); }
};

// Rows of a tensor of the checkpoint: [first, first + rows) of `all`.
struct Part {
  std::string name;
  std::int64_t rows;
  std::int64_t first = 0;
  std::int64_t all = 0;  // 0: it has no others
};

// Lays tensors out one after another. With a null base it only measures.
class Layout {
 public:
  Layout(std::byte* base, DType dtype) : base_(base), dtype_(dtype) {}

  // A tensor made of parts of the checkpoint stacked along the first dimension, columns
  // [first_col, first_col + cols) of `all_cols`.
  TensorView matrix(const std::vector<Part>& parts, std::int64_t cols, std::int64_t first_col = 0,
                    std::int64_t all_cols = 0) {
    std::int64_t rows = 0;
    for (const Part& part : parts) rows += part.rows;
    const TensorView whole(take(rows * cols), dtype_, {rows, cols});
    std::int64_t row = 0;
    for (const Part& part : parts) {
      pieces_.push_back({part.name,
                         {part.all > 0 ? part.all : part.rows, all_cols > 0 ? all_cols : cols},
                         part.first,
                         first_col,
                         whole.slice_rows(row, part.rows)});
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
      pieces_.push_back({part.name,
                         {part.all > 0 ? part.all : part.rows},
                         part.first,
                         0,
                         whole.slice_cols(at, part.rows)});
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

LayerWeights lay_out_layer(Layout& layout, const ModelConfig& all, Shard shard,
                           std::int64_t index) {
  const ModelConfig c = shape_of_shard(all, shard.size);
  const std::string prefix = fmt::format("model.layers.{}.", index);
  const auto attention = [&](const char* name) { return prefix + "self_attn." + name; };
  const auto share = [&](const std::string& name, std::int64_t rows) {
    return Part{name, rows, shard.rank * rows, shard.size * rows};
  };
  LayerWeights w;
  w.input_norm = layout.vector({{prefix + "input_layernorm.weight", c.hidden_size}});
  w.qkv = layout.matrix({share(attention("q_proj.weight"), c.q_size()),
                         share(attention("k_proj.weight"), c.kv_size()),
                         share(attention("v_proj.weight"), c.kv_size())},
                        c.hidden_size);
  if (c.qkv_bias) {
    w.qkv_bias = layout.vector({share(attention("q_proj.bias"), c.q_size()),
                                share(attention("k_proj.bias"), c.kv_size()),
                                share(attention("v_proj.bias"), c.kv_size())});
  }
  if (c.qk_norm) {
    w.q_norm = layout.vector({{attention("q_norm.weight"), c.head_dim}});
    w.k_norm = layout.vector({{attention("k_norm.weight"), c.head_dim}});
  }
  w.o = layout.matrix({{attention("o_proj.weight"), c.hidden_size}}, c.q_size(),
                      shard.rank * c.q_size(), all.q_size());
  if (c.o_bias && shard.rank == 0) {
    w.o_bias = layout.vector({{attention("o_proj.bias"), c.hidden_size}});
  }
  w.post_norm = layout.vector({{prefix + "post_attention_layernorm.weight", c.hidden_size}});
  w.gate_up = layout.matrix({share(prefix + "mlp.gate_proj.weight", c.ffn_size),
                             share(prefix + "mlp.up_proj.weight", c.ffn_size)},
                            c.hidden_size);
  w.down = layout.matrix({{prefix + "mlp.down_proj.weight", c.hidden_size}}, c.ffn_size,
                         shard.rank * c.ffn_size, all.ffn_size);
  return w;
}

Views lay_out(Layout& layout, const ModelConfig& c, Shard shard) {
  const VocabRange vocab = vocab_of_shard(c, shard);
  const auto of_vocab = [&](const char* name) {
    return layout.matrix({{name, vocab.count, vocab.first, c.vocab_size}}, c.hidden_size);
  };
  Views views;
  views.embedding = of_vocab("model.embed_tokens.weight");
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    views.layers.push_back(lay_out_layer(layout, c, shard, i));
  }
  views.final_norm = layout.vector({{"model.norm.weight", c.hidden_size}});
  views.head = c.tie_word_embeddings ? views.embedding : of_vocab("lm_head.weight");
  return views;
}

// Elements [begin, begin + count) of the piece, which are whole rows unless it has whole rows. Of a
// piece that has not, all columns are read and the others dropped, a few rows at a time: files are
// read in runs, and there is no other order in which their bytes lie together.
Status read_piece(const WeightSource& source, const Piece& piece, std::size_t begin,
                  std::size_t count, std::byte* target) {
  const auto all_cols = static_cast<std::size_t>(piece.all_cols());
  const auto cols = static_cast<std::size_t>(piece.cols());
  const DType dtype = piece.target.dtype;
  const std::size_t first = static_cast<std::size_t>(piece.first_row) * all_cols;
  if (piece.has_whole_rows()) {
    return source.read_part(piece.name, piece.shape, dtype, first + begin, count, target);
  }
  constexpr std::size_t kBlockBytes = std::size_t{4} << 20;
  const std::size_t rows_of_block =
      std::max<std::size_t>(1, kBlockBytes / (all_cols * size_of(dtype)));
  std::vector<std::byte> block(rows_of_block * all_cols * size_of(dtype));
  const std::size_t last_row = (begin + count) / cols;
  for (std::size_t row = begin / cols; row < last_row; row += rows_of_block) {
    const std::size_t rows = std::min(rows_of_block, last_row - row);
    TANDEM_TRY(source.read_part(piece.name, piece.shape, dtype, first + row * all_cols,
                                rows * all_cols, block.data()));
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t from = r * all_cols + static_cast<std::size_t>(piece.first_col);
      std::memcpy(target, block.data() + from * size_of(dtype), cols * size_of(dtype));
      target += cols * size_of(dtype);
    }
  }
  return {};
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

}  // namespace

std::size_t ModelWeights::bytes_needed(const ModelConfig& config, Shard shard, DType dtype) {
  Layout layout(nullptr, dtype);
  lay_out(layout, config, shard);
  return layout.bytes();
}

Result<ModelWeights> ModelWeights::load(const ModelConfig& config, Shard shard,
                                        const WeightSource& source, DType dtype, Device& device,
                                        const LoadProgress& progress) {
  ModelWeights weights;
  const std::size_t total = bytes_needed(config, shard, dtype);
  TANDEM_ASSIGN(weights.buffer_, device.allocate(total, "the model's weights"));
  Layout layout(weights.buffer_.data(), dtype);
  Views views = lay_out(layout, config, shard);
  weights.embedding_ = views.embedding;
  weights.head_ = views.head;
  weights.final_norm_ = views.final_norm;
  weights.layers_ = std::move(views.layers);

  if (!weights.buffer_.host_visible()) {
    TANDEM_TRY(read_through_staging(source, layout.pieces(), device, progress, total));
    return weights;
  }
  for (const Piece& piece : layout.pieces()) {
    TANDEM_TRY(read_piece(source, piece, 0, static_cast<std::size_t>(piece.target.num_elements()),
                          static_cast<std::byte*>(piece.target.data)));
    const auto done = static_cast<std::byte*>(piece.target.data) - weights.buffer_.data() +
                      piece.target.num_elements() * static_cast<std::ptrdiff_t>(size_of(dtype));
    if (progress) progress(static_cast<std::size_t>(done), total);
  }
  if (progress) progress(total, total);
  return weights;
}

}  // namespace tandem
