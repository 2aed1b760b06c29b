// GEMM by cuBLASLt: every shape and dtype of GemmArgs.
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

// Remembers an algorithm of cuBLASLt per kind of shape, so that a later GEMM of that kind costs the
// CPU one look-up: the fastest that tune() found, else the heuristics' first. Asking the heuristics
// is work of the CPU alone, legal in a capture. Not thread-safe; GEMMs of one object share a
// workspace, so they belong on one stream.
//
// us on one H200, bf16, llama-2-7b, launches back to back on a stream over weights of different
// layers, the heuristics' first / the fastest of all they name (8); in brackets the floor at copy
// speed (4.28 TB/s):
//   rows                  48           64           128
//   qkv          (23.5)   29.8 / 28.4  29.6 / 28.0  29.8 / 29.8
//   o             (7.8)   15.5 / 13.1  13.2 / 13.2  14.9 / 14.2
//   gate and up  (42.1)   47.7 / 46.7  49.2 / 47.4  51.7 / 50.0
//   down         (21.1)   28.7 / 28.7  30.7 / 26.6  32.6 / 31.4
// A workspace of 128 MiB changes nothing, nor do other splits of the inner dimension than those
// named, nor a product without the sum into y. A layer with its small kernels, the first / as tuned
// (at all these rows): 140 / 137 at 48 rows, 142 / 134 at 64, 155 / 153 at 128, but 190 / 191 at
// 192, 355 / 360 at 512, 644 / 680 at 1024, 1334 / 1389 at 2048: where arithmetic is the bound, the
// clocks of a short measurement are not those of a long prompt. So only few rows are tuned.
class LtGemm {
 public:
  static Result<std::unique_ptr<LtGemm>> create();
  ~LtGemm();
  LtGemm(const LtGemm&) = delete;
  LtGemm& operator=(const LtGemm&) = delete;

  // Enqueues; never allocates or synchronises. args.x has rows; shapes agree.
  Status run(const GemmArgs& args, cudaStream_t stream);

  // Measures the algorithms for products like these (Stream::tune_gemm) with `fewest` rows and
  // more, up to kMostTunedRows; waits for them, one kind of shape after the other. Of more rows, as
  // many as `like` has, each kind is computed once: at its first use a kernel has to be loaded.
  // What was chosen stays. Another object, or process, may choose another algorithm where the
  // measurements are that close, and then rounds differently.
  static constexpr std::int64_t kMostTunedRows = 128;
  Status tune(std::span<const GemmArgs> like, std::int64_t fewest, cudaStream_t stream);

 private:
  // What the choice of an algorithm depends on.
  struct Shape {
    std::int64_t rows;  // exact up to 32, then rounded up
    std::int64_t in;
    std::int64_t out;
    DType x;
    DType y;
    bool accumulate;
    std::uint8_t align_x, align_w, align_y;  // bytes, of addresses and rows
    bool operator==(const Shape&) const = default;
  };
  struct ShapeHash {
    std::size_t operator()(const Shape& shape) const;
  };

  explicit LtGemm(const CublasLt& lt) : lt_(lt) {}
  static Shape shape_of(const GemmArgs& args);
  // What run() multiplies for `args`: no bias, and a y that may be the scratch product.
  GemmArgs plain(const GemmArgs& args) const;
  // y = x w^T or y += x w^T; no bias.
  Status multiply(const GemmArgs& args, cudaStream_t stream);
  Status multiply(const GemmArgs& args, const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream);
  // Best first by the library's own estimate; at least one, at most `most`.
  Result<std::vector<cublasLtMatmulAlgo_t>> list_algorithms(const GemmArgs& args,
                                                            const Shape& shape, int most);
  struct Stopwatch;
  // Microseconds of a product, the mean of `calls` of them taken by turns.
  Result<float> measure(std::span<const GemmArgs> products, const cublasLtMatmulAlgo_t& algorithm,
                        int calls, Stopwatch& watch, cudaStream_t stream);
  Result<cublasLtMatmulAlgo_t> find_fastest(std::span<const GemmArgs> products, const Shape& shape,
                                            Stopwatch& watch, cudaStream_t stream);

  const CublasLt& lt_;
  cublasLtHandle_t handle_ = nullptr;
  DeviceMemory workspace_;
  DeviceMemory product_;  // f32, for a y of 16 bits that must round once
  std::unordered_map<Shape, cublasLtMatmulAlgo_t, ShapeHash> chosen_;
};

}  // namespace tandem::cuda
