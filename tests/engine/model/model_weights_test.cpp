#include "engine/model/weights/model_weights.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "gpu/host/host_device.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/same_weights.h"
#include "tests/support/sanitized.h"
#include "tests/support/small_model.h"

namespace tandem {
namespace {

// The host device with memory that the CPU may not write, like a GPU's.
class HiddenMemoryDevice final : public test::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  Result<Buffer> allocate(std::size_t bytes, std::string_view /*purpose*/) override {
    auto* data =
        static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / std::size_t{64} * 64));
    return Buffer(data, bytes, false, [](std::byte* memory, std::size_t) { std::free(memory); });
  }
};

DecoderShape small_shape() {
  DecoderShape shape;
  shape.hidden_size = 1536;
  shape.num_layers = 2;
  shape.num_heads = 8;
  shape.num_kv_heads = 2;
  shape.head_dim = 64;
  shape.ffn_size = 1000;
  shape.vocab_size = 15'001;  // the embedding exceeds one staging slot
  shape.qkv_bias = true;
  return shape;
}

TEST(ModelWeights, AreTheSameThroughTheStagingBufferAsWrittenInPlace) {
  const ModelSpec config = decoder_of(small_shape());
  const auto source = make_dummy_weights(7);
  for (const DType dtype : {DType::bf16, DType::f32}) {
    if (thread_sanitized() && dtype == DType::f32) continue;
    const auto device = make_host_device({}).value();
    HiddenMemoryDevice hidden(make_host_device({}).value());
    std::size_t last = 0;
    const auto staged = ModelWeights::load(config, {}, *source, dtype, hidden,
                                           [&](std::size_t done, std::size_t) { last = done; });
    ASSERT_TRUE(staged.ok()) << staged.status().message();
    const auto direct = ModelWeights::load(config, {}, *source, dtype, *device, {});
    ASSERT_TRUE(direct.ok()) << direct.status().message();
    EXPECT_GT(last, std::size_t{40} << 20);
    EXPECT_LE(last, staged->bytes());
    const auto same = [](const TensorView& a, const TensorView& b) {
      return std::memcmp(a.data, b.data,
                         static_cast<std::size_t>(a.num_elements()) * size_of(a.dtype)) == 0;
    };
    EXPECT_TRUE(same(staged->embedding().data, direct->embedding().data));
    EXPECT_TRUE(same(staged->head().data, direct->head().data));
    EXPECT_TRUE(same(staged->final_norm(), direct->final_norm()));
    for (std::int64_t i = 0; i < config.num_layers(); ++i) {
      EXPECT_TRUE(same(staged->layer(i).qkv.front().data, direct->layer(i).qkv.front().data));
      EXPECT_TRUE(same(staged->layer(i).qkv_bias, direct->layer(i).qkv_bias));
      EXPECT_TRUE(same(staged->layer(i).down.front().data, direct->layer(i).down.front().data));
    }
  }
}

// Projections of more than one staging slot, whole and cut for two devices.
TEST(ModelWeights, StayPackedThroughTheStagingBufferAsWrittenInPlace) {
  DecoderShape shape = small_shape();
  shape.num_layers = 1;
  shape.hidden_size = 4096;
  shape.ffn_size = 4224;
  shape.vocab_size = 300;
  const ModelSpec spec = decoder_of(shape);
  for (const DummyFormat format : {DummyFormat::fp8, DummyFormat::w4, DummyFormat::nf4}) {
    if (sanitized() && format != DummyFormat::w4) continue;  // they slow the conversion alone
    SCOPED_TRACE(static_cast<int>(format));
    const auto source = make_dummy_weights(7, 1, format);
    for (const Shard shard : {Shard{}, Shard{1, 2}}) {
      if (thread_sanitized() && shard.size > 1) continue;
      SCOPED_TRACE(shard.rank);
      const auto device = make_host_device({}).value();
      HiddenMemoryDevice hidden(make_host_device({}).value());
      std::size_t last = 0;
      const auto staged = ModelWeights::load(spec, shard, *source, DType::bf16, hidden,
                                             [&](std::size_t done, std::size_t) { last = done; });
      const auto direct = ModelWeights::load(spec, shard, *source, DType::bf16, *device, {});
      ASSERT_TRUE(staged.ok()) << staged.status().message();
      ASSERT_TRUE(direct.ok()) << direct.status().message();
      EXPECT_EQ(staged->bytes(),
                ModelWeights::bytes_needed(spec, shard, DType::bf16, *source, *device));
      EXPECT_LT(staged->bytes(), ModelWeights::bytes_needed(spec, shard, DType::bf16) * 2 / 3);
      EXPECT_GT(last, staged->bytes() * 9 / 10);
      const LayerWeights& x = staged->layer(0);
      const LayerWeights& y = direct->layer(0);
      EXPECT_FALSE(x.gate_up.front().is_dense());
      for (const auto weight :
           {&LayerWeights::qkv, &LayerWeights::o, &LayerWeights::gate_up, &LayerWeights::down}) {
        EXPECT_TRUE(test::same(x.*weight, y.*weight, DType::f32));
      }
    }
  }
}

// The host device that keeps packed what has rows of one length alone, for one type.
class ChoosyDevice final : public test::ForwardingDevice {
 public:
  ChoosyDevice(std::unique_ptr<Device> inner, std::int64_t cols)
      : ForwardingDevice(std::move(inner)), cols_(cols) {}
  bool keeps_packed(const WeightForm&, std::int64_t, std::int64_t cols, DType x) const override {
    return cols == cols_ && x == DType::f32;
  }

 private:
  std::int64_t cols_;
};

TEST(ModelWeights, AreConvertedWhereTheDeviceDoesNotKeepThemPacked) {
  DecoderShape shape = small_shape();
  shape.ffn_size = 1024;
  shape.vocab_size = 300;
  const ModelSpec spec = decoder_of(shape);
  const auto source = make_dummy_weights(7, 1, DummyFormat::w4);
  const auto host = make_host_device({}).value();
  const ModelWeights packed = ModelWeights::load(spec, {}, *source, DType::f32, *host, {}).value();
  ChoosyDevice choosy(make_host_device({}).value(), shape.hidden_size);
  const ModelWeights mixed = ModelWeights::load(spec, {}, *source, DType::f32, choosy, {}).value();
  EXPECT_FALSE(packed.layer(0).down.front().is_dense());
  EXPECT_FALSE(mixed.layer(0).qkv.front().is_dense());
  EXPECT_FALSE(mixed.layer(0).gate_up.front().is_dense());
  EXPECT_TRUE(mixed.layer(0).down.front().is_dense());
  EXPECT_TRUE(mixed.layer(0).o.front().is_dense());
  EXPECT_TRUE(test::same(mixed.layer(1).down, packed.layer(1).down, DType::f32));
  EXPECT_EQ(mixed.bytes(), ModelWeights::bytes_needed(spec, {}, DType::f32, *source, choosy));
  const ModelWeights dense = ModelWeights::load(spec, {}, *source, DType::bf16, choosy, {}).value();
  EXPECT_TRUE(dense.layer(0).qkv.front().is_dense());
  // A shard's rows decide, not the whole weight's.
  ChoosyDevice halves(make_host_device({}).value(), shape.ffn_size / 2);
  const ModelWeights shard =
      ModelWeights::load(spec, {0, 2}, *source, DType::f32, halves, {}).value();
  EXPECT_FALSE(shard.layer(0).down.front().is_dense());
  EXPECT_TRUE(shard.layer(0).gate_up.front().is_dense());
}

TEST(ModelWeights, OfInputsByLayerAreWholeInEachShardButForTheTable) {
  const ModelSpec spec = test::small_model_with_layer_inputs();
  const auto source = make_dummy_weights(7);
  const auto device = make_host_device({}).value();
  const ModelWeights whole = ModelWeights::load(spec, {}, *source, DType::f32, *device, {}).value();
  const auto same = [](const TensorView& part, const TensorView& all) {
    return part.rows() == all.rows() && part.cols() == all.cols() &&
           std::memcmp(part.data, all.data,
                       static_cast<std::size_t>(all.num_elements()) * sizeof(float)) == 0;
  };
  EXPECT_EQ(whole.layer(3).qkv.front().rows(), spec.q_size()) << "it has no keys";
  EXPECT_EQ(whole.layer(3).k_norm.rank, 0);
  EXPECT_EQ(whole.layer(3).down.front().data.cols(), 2 * spec.mlp().size);
  for (const std::int32_t rank : {0, 1}) {
    const Shard shard{rank, 2};
    const ModelWeights part =
        ModelWeights::load(spec, shard, *source, DType::f32, *device, {}).value();
    const VocabRange vocab = vocab_of_shard(spec, shard);
    EXPECT_TRUE(same(part.layer_inputs().table.data,
                     whole.layer_inputs().table.data.slice_rows(vocab.first, vocab.count)));
    EXPECT_TRUE(same(part.layer_inputs().projection.front().data,
                     whole.layer_inputs().projection.front().data));
    EXPECT_TRUE(same(part.layer_inputs().norm, whole.layer_inputs().norm));
    for (std::int64_t l = 0; l < spec.num_layers(); ++l) {
      const LayerWeights& w = part.layer(l);
      const LayerWeights& all = whole.layer(l);
      EXPECT_TRUE(same(w.input_gate.front().data, all.input_gate.front().data));
      EXPECT_TRUE(same(w.input_projection.front().data, all.input_projection.front().data));
      EXPECT_TRUE(same(w.input_out_norm, all.input_out_norm));
      EXPECT_EQ(w.output_scale, all.output_scale);
    }
  }
}

TEST(ModelWeights, OfAShardAreBlocksOfTheWhole) {
  DecoderShape wanted = small_shape();
  wanted.vocab_size = 1'501;  // the last rank has one row less
  wanted.o_bias = true;
  wanted.qk_norm = QkNorm::all_heads;
  ModelSpec config = decoder_of(wanted);
  for (LayerSpec& layer : config.layers) layer.attention.sinks = true;
  const auto source = make_dummy_weights(7);
  const auto device = make_host_device({}).value();
  HiddenMemoryDevice hidden(make_host_device({}).value());
  const ModelWeights whole =
      ModelWeights::load(config, {}, *source, DType::f32, *device, {}).value();
  const auto expect_block = [](const TensorView& part, const TensorView& all, std::int64_t row,
                               std::int64_t col) {
    ASSERT_LE(col + part.cols(), all.cols());
    for (std::int64_t r = 0; r < part.rows(); ++r) {
      const float* const want = reinterpret_cast<float*>(all.row_bytes(row + r)) + col;
      ASSERT_EQ(std::memcmp(part.row_bytes(r), want,
                            static_cast<std::size_t>(part.cols()) * sizeof(float)),
                0)
          << to_string(part) << " row " << r;
    }
  };
  for (const std::int32_t rank : {0, 1}) {
    const Shard shard{rank, 2};
    // One device is written directly, the other through the staging buffer.
    Device& target = rank == 0 ? *device : static_cast<Device&>(hidden);
    const ModelWeights part =
        ModelWeights::load(config, shard, *source, DType::f32, target, {}).value();
    EXPECT_LT(part.bytes(), whole.bytes() * 6 / 10);
    const ModelSpec shape = shape_of_shard(config, 2);
    const VocabRange vocab = vocab_of_shard(config, shard);
    ASSERT_EQ(part.embedding().rows(), vocab.count);
    expect_block(part.embedding().data, whole.embedding().data, vocab.first, 0);
    expect_block(part.head().data, whole.head().data, vocab.first, 0);
    for (std::int64_t l = 0; l < config.num_layers(); ++l) {
      const LayerWeights& w = part.layer(l);
      const LayerWeights& all = whole.layer(l);
      const std::int64_t q = shape.q_size();
      const std::int64_t kv = shape.kv_size();
      expect_block(w.qkv.front().data.slice_rows(0, q), all.qkv.front().data, rank * q, 0);
      expect_block(w.qkv.front().data.slice_rows(q, kv), all.qkv.front().data, 2 * q + rank * kv,
                   0);
      expect_block(w.qkv.front().data.slice_rows(q + kv, kv), all.qkv.front().data,
                   2 * q + 2 * kv + rank * kv, 0);
      expect_block(w.o.front().data, all.o.front().data, 0, rank * q);
      expect_block(w.gate_up.front().data.slice_rows(0, shape.mlp().size), all.gate_up.front().data,
                   rank * shape.mlp().size, 0);
      expect_block(w.gate_up.front().data.slice_rows(shape.mlp().size, shape.mlp().size),
                   all.gate_up.front().data, config.mlp().size + rank * shape.mlp().size, 0);
      expect_block(w.down.front().data, all.down.front().data, 0, rank * shape.mlp().size);
      EXPECT_EQ(w.o_bias.rank, rank == 0 ? 1 : 0) << "it is added once";
      const auto bias = [](const TensorView& v, std::int64_t i) { return v.ptr<float>()[i]; };
      for (std::int64_t i = 0; i < shape.attention().heads; ++i) {
        ASSERT_EQ(bias(w.sinks, i), bias(all.sinks, rank * shape.attention().heads + i));
      }
      for (std::int64_t i = 0; i < q; ++i) {
        ASSERT_EQ(bias(w.qkv_bias, i), bias(all.qkv_bias, rank * q + i));
        ASSERT_EQ(bias(w.q_norm, i), bias(all.q_norm, rank * q + i));
      }
      for (std::int64_t i = 0; i < kv; ++i) {
        ASSERT_EQ(bias(w.qkv_bias, q + i), bias(all.qkv_bias, 2 * q + rank * kv + i));
        ASSERT_EQ(bias(w.k_norm, i), bias(all.k_norm, rank * kv + i));
      }
    }
  }
}

}  // namespace
}  // namespace tandem
