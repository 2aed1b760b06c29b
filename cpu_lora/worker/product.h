// y = x w^T on the calling thread: the arithmetic of a delta on a CPU.
//
// Weights are packed first, possibly before x is known: a worker packs while it waits for its
// doorbell, and packing is what reads the weights from memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "base/status.h"

namespace tandem {

// Rows of a matrix of weights, rows `stride` elements apart.
struct WeightsView {
  const std::byte* data = nullptr;
  std::int64_t stride = 0;
  std::int64_t n = 0;  // rows: outputs of the product
  std::int64_t k = 0;  // columns
};

struct ProductArgs {
  std::int64_t rows = 0, n = 0, k = 0;
  const void* x = nullptr;  // [rows, k]
  DType x_dtype = DType::f32;
  std::int64_t x_stride = 0;
  const std::byte* packed = nullptr;  // w [n, k], packed whole
  void* y = nullptr;                  // [rows, n], overwritten
  DType y_dtype = DType::f32;
  std::int64_t y_stride = 0;
};

// Not thread-safe: it owns scratch memory. Sums are f32.
class Product {
 public:
  static constexpr std::int64_t kPackRows = 16;  // rows of w packed together

  virtual ~Product() = default;

  virtual const char* name() const = 0;
  // Bytes of w [n, k] when packed; its blocks of kPackRows rows lie one after another.
  virtual std::size_t packed_bytes(std::int64_t n, std::int64_t k) const = 0;
  // Packs rows [first, first + kPackRows) of w, as far as they exist; `packed` is the memory for
  // all of w, 64-byte aligned.
  virtual void pack(const WeightsView& w, std::int64_t first, std::byte* packed) = 0;
  // x has the weights' dtype or input_dtype(). Fails if oneDNN rejects the shape.
  virtual Status run(const ProductArgs& args) = 0;

  // The type of the next product's x, into which add_planes() writes sums, and the distance of its
  // rows, which have zeros after their k elements.
  virtual DType input_dtype() const = 0;
  std::int64_t input_stride(std::int64_t k) const { return (k + 31) / 32 * 32; }
  // out[i] = the sum of planes[p * plane_stride + i] over p, i < k.
  virtual void add_planes(const float* planes, std::int64_t plane_stride, int num_planes,
                          std::int64_t k, void* out) = 0;
};

enum class ProductKind {
  best,
  onednn,        // by oneDNN, after widening to f32
  onednn_bf16,   // by oneDNN in bf16
  amx,           // by AMX tiles; bf16
  amx_emulated,  // the loops of `amx` with tiles in memory, for tests on any machine
};

// Returns the product for weights of `dtype`. unavailable: this CPU does not support `kind`.
Result<std::unique_ptr<Product>> make_product(DType dtype, ProductKind kind = ProductKind::best);

}  // namespace tandem
