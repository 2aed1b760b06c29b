// The parts that every operation's test needs: the device under test, tensors filled at random, and
// the comparison with the host twin. The device comes from make_test_device(), which each device's
// test program defines, so that one suite tests them all.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "tests/gpu/reference/reference.h"
#include "tests/gpu/reference/tolerance.h"

namespace tandem {

// On GPUs: the GPU with the rank's number, modulo the number of GPUs.
std::unique_ptr<Device> make_test_device(int rank = 0);

// A dense tensor in host memory and its copy on the device, whose rows may be further apart.
class TestTensor {
 public:
  TestTensor(Device& device, DType dtype, std::initializer_list<std::int64_t> dims,
             std::int64_t extra_stride = 0);

  const TensorView& host() const { return host_; }
  const TensorView& on_device() const { return device_; }

  // Uniform in [-scale, scale].
  TestTensor& fill(std::mt19937_64& random, float scale = 1);
  void upload(Stream& stream);
  // The device's contents, in the layout of host().
  std::vector<std::byte> download(Stream& stream) const;

 private:
  std::vector<std::byte> bytes_;
  Buffer buffer_;
  TensorView host_;
  TensorView device_;
};

// An array of plain structs on both sides.
template <typename T>
class TestArray {
 public:
  TestArray(Device& device, Stream& stream, std::vector<T> values) : values_(std::move(values)) {
    buffer_ = std::move(device.allocate(values_.size() * sizeof(T) + 1, "test array")).value();
    stream.copy_to_device(buffer_.data(), values_.data(), values_.size() * sizeof(T));
    EXPECT_TRUE(stream.synchronize().ok());
  }
  // Replaces the values by as many others.
  void set(Stream& stream, std::vector<T> values) {
    ASSERT_EQ(values.size(), values_.size());
    values_ = std::move(values);
    stream.copy_to_device(buffer_.data(), values_.data(), values_.size() * sizeof(T));
    EXPECT_TRUE(stream.synchronize().ok());
  }
  const T* host() const { return values_.data(); }
  T* on_device() const { return reinterpret_cast<T*>(buffer_.data()); }

  std::vector<T> download(Stream& stream) const {
    std::vector<T> copy(values_.size());
    stream.copy_to_host(copy.data(), buffer_.data(), copy.size() * sizeof(T));
    EXPECT_TRUE(stream.synchronize().ok());
    return copy;
  }

 private:
  std::vector<T> values_;
  Buffer buffer_;
};

// For rows [q, k, v], as one product stores them.
RopeAppendArgs append_of(const TensorView& qkv, std::int64_t heads, std::int64_t kv_heads,
                         const TensorView& cos_sin, const std::int32_t* positions,
                         const std::int32_t* slots, const KvLayer& cache);

class OpsTest : public testing::Test {
 protected:
  OpsTest();

  // Compares the device's contents with tensor.host(), the twin's result.
  void expect_same(const TestTensor& tensor, const std::string& what);
  void expect_same(const TestTensor& tensor, const std::string& what, Tolerance tolerance);
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  TestTensor tensor(DType dtype, std::initializer_list<std::int64_t> dims, float scale = 1,
                    std::int64_t extra_stride = 0);
  template <typename T>
  TestArray<T> array(std::vector<T> values) {
    return TestArray<T>(*device_, *stream_, std::move(values));
  }

  static constexpr DType kDtypes[] = {DType::f32, DType::bf16, DType::f16};

  std::unique_ptr<Device> device_ = make_test_device();
  std::unique_ptr<Stream> stream_;
  std::mt19937_64 random_;
};

}  // namespace tandem
