#include "tests/gpu/ops/ops_fixture.h"
#include "tests/support/test_seed.h"

#include <cstring>

namespace tandem {

TestTensor::TestTensor(Device& device, DType dtype, std::initializer_list<std::int64_t> dims,
                       std::int64_t extra_stride)
    : host_(nullptr, dtype, dims) {
  device_ = host_;
  bytes_.resize(static_cast<std::size_t>(host_.num_elements()) * size_of(dtype) + 1);
  host_.data = bytes_.data();
  if (host_.rank > 1) device_.stride[0] += extra_stride;
  const std::int64_t rows = host_.rank > 1 ? host_.rows() : 1;
  const std::int64_t row = host_.rank > 1 ? device_.stride[0] : host_.num_elements();
  buffer_ = std::move(device.allocate(static_cast<std::size_t>(rows * row) * size_of(dtype) + 1,
                                      "test tensor"))
                .value();
  device_.data = buffer_.data();
}

TestTensor& TestTensor::fill(std::mt19937_64& random, float scale) {
  std::uniform_real_distribution<float> uniform(-scale, scale);
  const auto size = static_cast<std::int64_t>(size_of(host_.dtype));
  for (std::int64_t i = 0; i < host_.num_elements(); ++i) {
    const float value = uniform(random);
    convert(DType::f32, &value, host_.dtype, bytes_.data() + i * size, 1);
  }
  return *this;
}

void TestTensor::upload(Stream& stream) {
  const std::int64_t rows = host_.rank > 1 ? host_.rows() : 1;
  const std::size_t size = size_of(host_.dtype);
  const auto row_bytes =
      static_cast<std::size_t>(rows == 0 ? 0 : host_.num_elements() / rows) * size;
  for (std::int64_t r = 0; r < rows; ++r) {
    stream.copy_to_device(device_.row_bytes(r),
                          bytes_.data() + static_cast<std::size_t>(r) * row_bytes, row_bytes);
  }
  EXPECT_TRUE(stream.synchronize().ok());
}

std::vector<std::byte> TestTensor::download(Stream& stream) const {
  std::vector<std::byte> copy(bytes_.size());
  const std::int64_t rows = host_.rank > 1 ? host_.rows() : 1;
  const auto row_bytes =
      static_cast<std::size_t>(rows == 0 ? 0 : host_.num_elements() / rows) * size_of(host_.dtype);
  for (std::int64_t r = 0; r < rows; ++r) {
    stream.copy_to_host(copy.data() + static_cast<std::size_t>(r) * row_bytes, device_.row_bytes(r),
                        row_bytes);
  }
  const Status status = stream.synchronize();
  EXPECT_TRUE(status.ok()) << status.message();
  return copy;
}

OpsTest::OpsTest() {
  stream_ = std::move(device_->create_stream("test")).value();
  const std::uint64_t seed = test_seed();
  RecordProperty("seed", std::to_string(seed));
  random_.seed(seed);
}

TestTensor OpsTest::tensor(DType dtype, std::initializer_list<std::int64_t> dims, float scale,
                           std::int64_t extra_stride) {
  TestTensor made(*device_, dtype, dims, extra_stride);
  made.fill(random_, scale);
  made.upload(*stream_);
  return made;
}

RopeAppendArgs append_of(const TensorView& qkv, std::int64_t heads, std::int64_t kv_heads,
                         const TensorView& cos_sin, const std::int32_t* positions,
                         const std::int32_t* slots, const KvLayer& cache) {
  const std::int64_t d = qkv.cols() / (heads + 2 * kv_heads);
  return {.q = qkv.slice_cols(0, heads * d).split_cols(heads),
          .k = qkv.slice_cols(heads * d, kv_heads * d).split_cols(kv_heads),
          .v = qkv.slice_cols((heads + kv_heads) * d, kv_heads * d).split_cols(kv_heads),
          .cos_sin = cos_sin,
          .positions = positions,
          .slots = slots,
          .cache = cache};
}

void OpsTest::expect_same(const TestTensor& tensor, const std::string& what) {
  expect_same(tensor, what, tolerance_of(tensor.host().dtype));
}

void OpsTest::expect_same(const TestTensor& tensor, const std::string& what, Tolerance tolerance) {
  const std::vector<std::byte> got = tensor.download(*stream_);
  const auto size = static_cast<std::int64_t>(size_of(tensor.host().dtype));
  const auto* want = static_cast<const std::byte*>(tensor.host().data);
  for (std::int64_t i = 0; i < tensor.host().num_elements(); ++i) {
    float got_value = 0;
    float want_value = 0;
    convert(tensor.host().dtype, got.data() + i * size, DType::f32, &got_value, 1);
    convert(tensor.host().dtype, want + i * size, DType::f32, &want_value, 1);
    ASSERT_TRUE(tolerance.accepts(got_value, want_value))
        << what << ": " << to_string(tensor.host()) << " element " << i << " is " << got_value
        << ", the twin says " << want_value;
  }
}

}  // namespace tandem
