// GEMM with cuBLASLt, for every shape and dtype of GemmArgs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "gpu/cuda/base/device_memory.h"
#include "gpu/cuda/gemm/cublas_lt.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// Caches one cuBLASLt algorithm per kind of shape, so that a later GEMM of that kind costs the CPU
// one look-up: the fastest that tune() found, otherwise the heuristics' first. Asking the
// heuristics is CPU work, which is legal during a capture. Not thread-safe; GEMMs of one object
// share a workspace, so they belong on one stream.
//
// Measured in us on one H200, bf16, llama-2-7b, launches back to back on a stream over weights of
// different layers: the heuristics' first / the fastest of all that they list (8); in brackets the
// lower bound at copy speed (4.28 TB/s):
//   rows                  48           64           128
//   qkv          (23.5)   29.8 / 28.4  29.6 / 28.0  29.8 / 29.8
//   o             (7.8)   15.5 / 13.1  13.2 / 13.2  14.9 / 14.2
//   gate and up  (42.1)   47.7 / 46.7  49.2 / 47.4  51.7 / 50.0
//   down         (21.1)   28.7 / 28.7  30.7 / 26.6  32.6 / 31.4
// No improvement came from a workspace of 128 MiB, from splits of the inner dimension other than
// those listed, or from a product without the sum into y. A layer with its small kernels, first /
// tuned (at all these rows): 140 / 137 at 48 rows, 142 / 134 at 64, 155 / 153 at 128, but 190 / 191
// at 192, 355 / 360 at 512, 644 / 680 at 1024, 1334 / 1389 at 2048: if arithmetic is the bound, a
// short measurement runs at other clocks than a long prompt. So only few rows are tuned.
class LtGemm {
 public:
  static Result<std::unique_ptr<LtGemm>> create();
  ~LtGemm();
  LtGemm(const LtGemm&) = delete;
  LtGemm& operator=(const LtGemm&) = delete;

  // Enqueues; never allocates or synchronises. args.x has rows; shapes agree.
  Status run(const GemmArgs& args, cudaStream_t stream);

  // Measures the algorithms for products like these (Stream::tune_gemm), from `fewest` rows up to
  // kMostTunedRows, one kind of shape after another; waits for them. For more rows, up to as many
  // as `like` has, each kind is computed once to load its kernel. This object keeps its choices. If
  // times are close, another object or process may choose another algorithm, which rounds
  // differently.
  static constexpr std::int64_t kMostTunedRows = 128;
  Status tune(std::span<const GemmArgs> like, std::int64_t fewest, cudaStream_t stream);

 private:
  // The properties that decide which algorithm is chosen.
  struct Shape {
    std::int64_t rows;  // exact up to 32, then rounded up
    std::int64_t in;
    std::int64_t out;
    DType x;
    DType y;
    bool accumulate;
    std::uint8_t align_x, align_w, align_y;  // in bytes, of addresses and row strides
    bool operator==(const Shape&) const = default;
  };
  struct ShapeHash {
    std::size_t operator()(const Shape& shape) const;
  };

  explicit LtGemm(const CublasLt& lt) : lt_(lt) {}
  static Shape shape_of(const GemmArgs& args);
  // The product that run() computes for `args`: no bias, and y may be the scratch product.
  GemmArgs plain(const GemmArgs& args) const;
  // y = x w^T or y += x w^T; no bias.
  Status multiply(const GemmArgs& args, cudaStream_t stream);
  Status multiply(const GemmArgs& args, const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream);
  // Returns at most `most` algorithms, at least one; best first by the library's own estimate.
  Result<std::vector<cublasLtMatmulAlgo_t>> list_algorithms(const GemmArgs& args,
                                                            const Shape& shape, int most);
  struct Stopwatch;
  // Microseconds per product: the mean of `calls` calls, which cycle through `products`.
  Result<float> measure(std::span<const GemmArgs> products, const cublasLtMatmulAlgo_t& algorithm,
                        int calls, Stopwatch& watch, cudaStream_t stream);
  Result<cublasLtMatmulAlgo_t> find_fastest(std::span<const GemmArgs> products, const Shape& shape,
                                            Stopwatch& watch, cudaStream_t stream);

  const CublasLt& lt_;
  cublasLtHandle_t handle_ = nullptr;
  DeviceMemory workspace_;
  DeviceMemory product_;  // f32, used if a 16-bit y must be rounded once
  std::unordered_map<Shape, cublasLtMatmulAlgo_t, ShapeHash> chosen_;
};

}  // namespace tandem::cuda
