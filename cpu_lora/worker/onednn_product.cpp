#include "cpu_lora/worker/onednn_product.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "base/memory/aligned_bytes.h"
#include "base/onednn/matmul.h"

namespace tandem {
namespace {

// Pads the rows, so that groups of any size share a few compiled primitives.
std::int64_t bucket_of(std::int64_t rows) {
  std::int64_t bucket = 1;
  while (bucket < rows && bucket < 16) bucket *= 2;
  if (rows <= bucket) return bucket;
  const std::int64_t step = rows <= 64 ? 16 : 64;
  return (rows + step - 1) / step * step;
}

class OnednnProduct final : public Product {
 public:
  OnednnProduct(DType dtype, DType compute) : dtype_(dtype), compute_(compute) {}

  const char* name() const override {
    return compute_ == DType::bf16 ? "bf16 by oneDNN" : "f32 by oneDNN";
  }
  DType input_dtype() const override { return compute_; }
  std::size_t packed_bytes(std::int64_t n, std::int64_t k) const override {
    return static_cast<std::size_t>(n * k * element(compute_));
  }

  void pack(const WeightsView& w, std::int64_t first, std::byte* packed) override {
    const std::int64_t end = std::min(first + kPackRows, w.n);
    for (std::int64_t row = first; row < end; ++row) {
      convert(dtype_, w.data + row * w.stride * element(dtype_), compute_,
              packed + row * w.k * element(compute_), static_cast<std::size_t>(w.k));
    }
  }

  void add_planes(const float* planes, std::int64_t plane_stride, int num_planes, std::int64_t k,
                  void* out) override {
    float* sums = y_.get<float>(static_cast<std::size_t>(k));
    std::copy_n(planes, k, sums);
    for (int p = 1; p < num_planes; ++p) {
      const float* plane = planes + p * plane_stride;
      for (std::int64_t i = 0; i < k; ++i) sums[i] += plane[i];
    }
    convert(DType::f32, sums, compute_, out, static_cast<std::size_t>(k));
  }

  Status run(const ProductArgs& args) override {
    if (args.rows == 0 || args.n == 0 || args.k == 0) return {};
    try {
      multiply(args);
      return {};
    } catch (const std::exception& failure) {
      return error(StatusCode::internal, "oneDNN matmul of {}x{}x{}: {}", args.rows, args.n, args.k,
                   failure.what());
    }
  }

 private:
  static std::int64_t element(DType dtype) { return static_cast<std::int64_t>(size_of(dtype)); }

  void multiply(const ProductArgs& args) {
    const std::int64_t m = bucket_of(args.rows);
    const std::int64_t size = element(compute_);
    std::byte* x = x_.get(static_cast<std::size_t>(m * args.k * size));
    const auto* from = static_cast<const std::byte*>(args.x);
    for (std::int64_t r = 0; r < args.rows; ++r) {
      convert(args.x_dtype, from + r * args.x_stride * element(args.x_dtype), compute_,
              x + r * args.k * size, static_cast<std::size_t>(args.k));
    }
    std::fill(x + args.rows * args.k * size, x + m * args.k * size, std::byte{0});
    float* y = y_.get<float>(static_cast<std::size_t>(m * args.n));
    matmuls_.run({compute_, m, args.n, args.k}, x, args.packed, y, scratch_);
    auto* to = static_cast<std::byte*>(args.y);
    for (std::int64_t r = 0; r < args.rows; ++r) {
      convert(DType::f32, y + r * args.n, args.y_dtype,
              to + r * args.y_stride * element(args.y_dtype), static_cast<std::size_t>(args.n));
    }
  }

  DType dtype_;    // of the weights
  DType compute_;  // f32 or bf16
  MatmulCache matmuls_;
  MatmulScratch scratch_;
  AlignedBytes x_, y_;
};

}  // namespace

std::unique_ptr<Product> make_onednn_product(DType dtype, DType compute) {
  return std::make_unique<OnednnProduct>(dtype, compute);
}

}  // namespace tandem
