#include "cpu_lora/onednn_product.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "cpu_lora/aligned_bytes.h"
#include "engine/base/check.h"

namespace tandem {
namespace {

using dnnl::memory;

// y [m, n] = x [m, k] w [n, k]^T, all dense; y is f32.
struct DeltaShape {
  std::int64_t m, n, k;
  bool operator==(const DeltaShape&) const = default;
};

struct HashDeltaShape {
  std::size_t operator()(const DeltaShape& shape) const {
    std::uint64_t hash = 0;
    for (const std::int64_t part : {shape.m, shape.n, shape.k}) {
      hash = (hash ^ static_cast<std::uint64_t>(part)) * 0x9e3779b97f4a7c15U;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

struct DeltaPrimitive {
  dnnl::matmul matmul;
  memory::desc x, w, y;
  std::size_t scratch_bytes = 0;
};

DeltaPrimitive make_primitive(const DeltaShape& shape, DType dtype, const dnnl::engine& engine) {
  const auto type = dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
  DeltaPrimitive made;
  made.x = memory::desc({shape.m, shape.k}, type, memory::format_tag::ab);
  // The weights are [n, k]: oneDNN's k x n operand, columns contiguous.
  made.w = memory::desc({shape.k, shape.n}, type, memory::format_tag::ba);
  made.y = memory::desc({shape.m, shape.n}, memory::data_type::f32, memory::format_tag::ab);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc desc(engine, made.x, made.w, made.y, attributes);
#else
  const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(made.x, made.w, made.y), attributes,
                                          engine);
#endif
  made.matmul = dnnl::matmul(desc);
  made.scratch_bytes = desc.scratchpad_desc().get_size();
  return made;
}

// Rows are padded so that groups of any size share a few compiled primitives.
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
    const std::int64_t stride = input_stride(k);
    float* sums = y_.get<float>(static_cast<std::size_t>(stride));
    std::copy_n(planes, k, sums);
    for (int p = 1; p < num_planes; ++p) {
      const float* plane = planes + p * plane_stride;
      for (std::int64_t i = 0; i < k; ++i) sums[i] += plane[i];
    }
    std::fill(sums + k, sums + stride, 0.0F);
    convert(DType::f32, sums, compute_, out, static_cast<std::size_t>(stride));
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
  static constexpr std::size_t kMaxEntries = 512;
  using Entry = std::pair<DeltaShape, DeltaPrimitive>;

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
    const DeltaPrimitive& primitive = find_or_make({m, args.n, args.k});
    const memory::desc scratch({static_cast<memory::dim>(primitive.scratch_bytes)},
                               memory::data_type::u8, memory::format_tag::a);
    void* w = const_cast<std::byte*>(args.packed);
    primitive.matmul.execute(
        stream_, {{DNNL_ARG_SRC, memory(primitive.x, engine_, x)},
                  {DNNL_ARG_WEIGHTS, memory(primitive.w, engine_, w)},
                  {DNNL_ARG_DST, memory(primitive.y, engine_, y)},
                  {DNNL_ARG_SCRATCHPAD,
                   memory(scratch, engine_, scratch_.get(primitive.scratch_bytes + 64))}});
    stream_.wait();
    auto* to = static_cast<std::byte*>(args.y);
    for (std::int64_t r = 0; r < args.rows; ++r) {
      convert(DType::f32, y + r * args.n, args.y_dtype,
              to + r * args.y_stride * element(args.y_dtype), static_cast<std::size_t>(args.n));
    }
  }

  const DeltaPrimitive& find_or_make(const DeltaShape& shape) {
    if (const auto found = by_shape_.find(shape); found != by_shape_.end()) {
      by_age_.splice(by_age_.begin(), by_age_, found->second);
      return by_age_.front().second;
    }
    by_age_.emplace_front(shape, make_primitive(shape, compute_, engine_));
    by_shape_.emplace(shape, by_age_.begin());
    if (by_age_.size() > kMaxEntries) {
      by_shape_.erase(by_age_.back().first);
      by_age_.pop_back();
    }
    return by_age_.front().second;
  }

  DType dtype_;    // of the weights
  DType compute_;  // f32 or bf16
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::list<Entry> by_age_;  // used last first
  std::unordered_map<DeltaShape, std::list<Entry>::iterator, HashDeltaShape> by_shape_;
  AlignedBytes x_, y_, scratch_;
};

}  // namespace

std::unique_ptr<Product> make_onednn_product(DType dtype, DType compute) {
  return std::make_unique<OnednnProduct>(dtype, compute);
}

void use_one_thread() {
  omp_set_num_threads(1);
}

}  // namespace tandem
