#include "engine/model/model_weights.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "gpu/host/host_device.h"
#include "tests/support/forwarding_device.h"

namespace tandem {
namespace {

// The host device, but one whose memory the CPU may not write: as a GPU's.
class HiddenMemoryDevice final : public test::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  Result<Buffer> allocate(std::size_t bytes, std::string_view /*purpose*/) override {
    auto* data =
        static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / std::size_t{64} * 64));
    return Buffer(data, bytes, false, [](std::byte* memory, std::size_t) { std::free(memory); });
  }
};

ModelConfig small_config() {
  ModelConfig config;
  config.hidden_size = 1536;
  config.num_layers = 2;
  config.num_heads = 8;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  config.ffn_size = 1000;
  config.vocab_size = 15'001;  // an embedding of more than one staging slot
  config.qkv_bias = true;
  return config;
}

TEST(ModelWeights, AreTheSameThroughTheStagingBufferAsWrittenInPlace) {
  const ModelConfig config = small_config();
  const auto source = make_dummy_weights(7);
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const auto device = make_host_device({}).value();
    HiddenMemoryDevice hidden(make_host_device({}).value());
    std::size_t last = 0;
    const auto staged = ModelWeights::load(config, *source, dtype, hidden,
                                           [&](std::size_t done, std::size_t) { last = done; });
    ASSERT_TRUE(staged.ok()) << staged.status().message();
    const auto direct = ModelWeights::load(config, *source, dtype, *device, {});
    ASSERT_TRUE(direct.ok()) << direct.status().message();
    EXPECT_GT(last, std::size_t{40} << 20);
    EXPECT_LE(last, staged->bytes());
    const auto same = [](const TensorView& a, const TensorView& b) {
      return std::memcmp(a.data, b.data,
                         static_cast<std::size_t>(a.num_elements()) * size_of(a.dtype)) == 0;
    };
    EXPECT_TRUE(same(staged->embedding(), direct->embedding()));
    EXPECT_TRUE(same(staged->head(), direct->head()));
    EXPECT_TRUE(same(staged->final_norm(), direct->final_norm()));
    for (std::int64_t i = 0; i < config.num_layers; ++i) {
      EXPECT_TRUE(same(staged->layer(i).qkv, direct->layer(i).qkv));
      EXPECT_TRUE(same(staged->layer(i).qkv_bias, direct->layer(i).qkv_bias));
      EXPECT_TRUE(same(staged->layer(i).down, direct->layer(i).down));
    }
  }
}

}  // namespace
}  // namespace tandem
