#include "engine/model/model.h"

#include <gtest/gtest.h>

#include "tests/support/forwarding_device.h"
#include "tests/support/small_model.h"

namespace tandem {
namespace {

class SmallHeadsDevice final : public test::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  std::int64_t max_head_dim() const override { return 16; }
};

Status load(std::int64_t head_dim) {
  SmallHeadsDevice device(make_host_device({}).value());
  ModelSpec spec = test::small_model(1);
  for (LayerSpec& layer : spec.layers) layer.attention.head_dim = head_dim;
  return Model::load(spec, *make_dummy_weights(7), DType::f32, {8, 8, 32, 8}, device, {}).status();
}

TEST(Model, IsRefusedWithLargerHeadsThanTheDeviceComputes) {
  EXPECT_TRUE(load(16).ok()) << load(16).message();
  const Status refused = load(18);
  EXPECT_EQ(refused.code(), StatusCode::invalid_argument);
  EXPECT_EQ(refused.message(), "the model's attention heads have size 18; " +
                                   make_host_device({}).value()->info().name +
                                   " computes sizes up to 16");
}

}  // namespace
}  // namespace tandem
