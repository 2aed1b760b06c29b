// GEMM by cuBLASLt: every shape and dtype of GemmArgs.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "engine/base/status.h"
#include "gpu/cuda/base/device_memory.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// Remembers cuBLASLt's heuristic choice per kind of shape, so that a later GEMM of that kind costs
// the CPU one look-up. Asking the heuristics is work of the CPU alone, legal in a capture. Not
// thread-safe; GEMMs of one object share a workspace, so they belong on one stream.
class LtGemm {
 public:
  static Result<std::unique_ptr<LtGemm>> create();
  ~LtGemm();
  LtGemm(const LtGemm&) = delete;
  LtGemm& operator=(const LtGemm&) = delete;

  // Enqueues; never allocates or synchronises. args.x has rows; shapes agree.
  Status run(const GemmArgs& args, cudaStream_t stream);

 private:
  // What the choice of an algorithm depends on.
  struct Shape {
    std::int64_t rows;  // exact up to 64, then rounded up
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

  LtGemm() = default;
  // y = x w^T or y += x w^T; no bias.
  Status multiply(const GemmArgs& args, cudaStream_t stream);
  Result<cublasLtMatmulAlgo_t> choose(const Shape& shape, cublasLtMatmulDesc_t operation,
                                      cublasLtMatrixLayout_t w, cublasLtMatrixLayout_t x,
                                      cublasLtMatrixLayout_t y);

  cublasLtHandle_t handle_ = nullptr;
  DeviceMemory workspace_;
  DeviceMemory product_;  // f32, for a y of 16 bits that must round once
  std::unordered_map<Shape, cublasLtMatmulAlgo_t, ShapeHash> chosen_;
};

}  // namespace tandem::cuda
