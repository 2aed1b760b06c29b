// Parameters of the LoRA kernels: plain values and pointers, passed by value to every block. This
// header uses no C++ library, so that libtandem_lora.so needs only the CUDA runtime.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace tandem::cuda {

enum class LoraType : std::int32_t { f32, f16, bf16 };

// The part of the operation to compute: all of it, or one half (LoraPart in gpu/ops.h).
enum class LoraHalf : std::int32_t { both, shrink, expand };

// Same as tandem::lora_share.
__host__ __device__ constexpr int ranks_of_share(int rank, int num_shares) {
  return (rank + 4 * num_shares - 1) / (4 * num_shares) * 4;
}

// Same as tandem::LoraMatrix and LoraSegment (gpu/ops.h); lora.cpp asserts that they agree.
struct LoraEntry {
  std::uint64_t a;
  std::uint64_t b;
  std::int32_t rank;
  std::int32_t b_stride;
};
struct LoraRows {
  std::int32_t slot;
  std::int32_t first;
  std::int32_t count;
};

struct LoraOutput {
  void* data = nullptr;
  std::int64_t stride = 0;  // elements from row to row
  std::int32_t cols = 0;
};

// The weights of one module for all adapters as two dense arrays: [adapters, rank, in] and
// [adapters, out, rank]. `ranks`, if given, is how many of the `rank` rows of A an adapter uses.
struct LoraDense {
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  std::int64_t a_slot_bytes = 0;
  std::int64_t b_slot_bytes = 0;
};

struct LoraParams {
  static constexpr int kMaxModules = 3;

  const void* x = nullptr;  // [T, in]
  std::int64_t x_stride = 0;
  std::int32_t in = 0;
  std::int32_t num_modules = 0;
  LoraOutput out[kMaxModules];
  LoraType type = LoraType::bf16;      // of x and of the weights
  LoraType out_type = LoraType::bf16;  // `type` or f32

  // The weights' location: a table of entries (perhaps with pages), or dense arrays.
  const LoraEntry* table = nullptr;
  std::int64_t slot_stride = 0;
  const std::byte* page_base = nullptr;  // null: entries hold addresses
  const std::int32_t* page_ids = nullptr;
  std::int64_t page_slot_stride = 0;
  std::int32_t page_shift = 0;
  LoraDense dense[kMaxModules];         // used when `table` is null
  const std::int32_t* ranks = nullptr;  // [adapters], for dense arrays; null: all use dense_rank
  std::int32_t dense_rank = 0;

  // The rows of each adapter: as segments of `rows` (null: the identity), or as a slot per row.
  const LoraRows* segments = nullptr;
  std::int32_t num_segments = 0;
  const std::int32_t* rows = nullptr;
  std::int32_t num_rows = 0;
  const std::int32_t* row_slots = nullptr;  // [num_rows], used when `segments` is null; -1: none

  std::int32_t max_rank = 0;
  std::int32_t max_count = 0;
  // For the halves: v in LoraArgs' layout, `v_width` floats for a module's ranks of a share.
  LoraHalf half = LoraHalf::both;
  float* v = nullptr;
  std::int64_t v_stride = 0;
  std::int32_t v_width = 0;
  std::int32_t num_shares = 1;
  std::int32_t share = 0;
  std::int32_t first_column = 0;

  bool weights_aligned = true;  // rows of A and B begin at multiples of 16 bytes if `in` allows
};

// How the work of a step's launch is divided; see plan.h.
struct LoraCut {
  std::int32_t tile_rows = 0;    // 0: the plain kernel; 8: bgmv, mbgmv and halves; 32, 64: sgmv
  std::int32_t padded_rank = 0;  // bgmv: ranks that loops run to for every adapter; 0: its own
  std::int32_t log_cluster = 0;  // 2^this blocks share a tile: they split `in`, then the columns
  std::int32_t log_splits = 0;   // 2^this clusters share a tile's columns; each does all of x A^T
  bool overlap = false;          // programmatic dependent launch
  std::int32_t spare = 0;        // sgmv: a cluster has this many blocks fewer; less than half
  std::int32_t paired = -1;      // tiles of 8 rows from here on share clusters by twos; -1: none

  std::int32_t blocks() const { return (1 << log_cluster) - spare; }  // per cluster
};

// Each enqueues one kernel, without validating, allocating or waiting. fused.cuh (tiles of 8 rows),
// halves.cuh (the same in two launches), sgmv.cuh (tiles of 32 and 64 rows) and plain.cu.
cudaError_t launch_lora_bf16(const LoraParams& params, const LoraCut& cut, cudaStream_t stream);
cudaError_t launch_lora_f16(const LoraParams& params, const LoraCut& cut, cudaStream_t stream);
cudaError_t launch_half_bf16(const LoraParams& params, const LoraCut& cut, cudaStream_t stream);
cudaError_t launch_half_f16(const LoraParams& params, const LoraCut& cut, cudaStream_t stream);
cudaError_t launch_sgmv_bf16(const LoraParams& params, const LoraCut& cut, cudaStream_t stream);
cudaError_t launch_sgmv_f16(const LoraParams& params, const LoraCut& cut, cudaStream_t stream);
cudaError_t launch_lora_plain(const LoraParams& params, bool overlap, cudaStream_t stream);

}  // namespace tandem::cuda
