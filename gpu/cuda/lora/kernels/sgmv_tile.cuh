// How the blocks of sgmv.cuh divide the work, and how a block's threads divide its tile.
#pragma once

#include "gpu/cuda/lora/kernels/shrink.cuh"

namespace tandem::cuda {

// A block of eight warps divides a tile of kRows rows into kRowWarps groups of 16 rows; the kParts
// warps of a group take `in` 16 elements at a time in rotation, later the columns by units of 32.
template <int kTileRows>
struct SgmvShape {
  static constexpr int kRows = kTileRows;
  static constexpr int kRowWarps = kRows / 16;
  static constexpr int kParts = kLoraWarps / kRowWarps;
  static constexpr int kColumns = kParts * kUnit;
  static constexpr int kInputs = kRows == 32 ? 128 : 64;
  static constexpr int kStages = kRows == 32 ? 3 : 4;
  static constexpr int kRowBytes = kRows * kInputs * 2;          // of x
  static constexpr int kWeightBytes = kPassRanks * kInputs * 2;  // of A
  static constexpr int kBytes = kRowBytes + kWeightBytes;        // per stage
  static_assert(kRows * kColumns * 2 == kRowBytes);              // y
  static_assert(kColumns * kStepRanks * 2 == kWeightBytes);      // B
};

// The first of the warp's 16 rows in the tile; then its index among the warps of these rows.
template <typename Shape>
__device__ __forceinline__ int sgmv_row() {
  return static_cast<int>(threadIdx.x / 32) % Shape::kRowWarps * 16;
}
template <typename Shape>
__device__ __forceinline__ int sgmv_part() {
  return static_cast<int>(threadIdx.x / 32) / Shape::kRowWarps;
}
// The first of this thread's eight columns in a stage.
template <typename Shape>
__device__ __forceinline__ int sgmv_column() {
  return sgmv_part<Shape>() * kUnit + static_cast<int>(threadIdx.x % 4) * 8;
}

// A launch's cut, in the form that the kernel needs.
struct SgmvCut : LoraCut {
  std::uint32_t reciprocal = 0;  // 2^16 / the blocks of a cluster, rounded up

  explicit SgmvCut(const LoraCut& cut) : LoraCut(cut) {
    const auto n = static_cast<std::uint32_t>(blocks());
    reciprocal = ((1U << 16) + n - 1) / n;
  }
};

// The blocks of a cluster: a power of two, or fewer (`kSpare`). The latter needs multiplications
// between launch and store, which would cost 4 % at 8 to 64 rows, hence the template flag.
template <bool kSpare>
class SgmvCluster {
 public:
  __device__ __forceinline__ explicit SgmvCluster(const SgmvCut& cut)
      : log_blocks_(cut.log_cluster), spare_(cut.spare), reciprocal_(cut.reciprocal) {}

  __device__ __forceinline__ bool alone() const { return !kSpare && log_blocks_ == 0; }
  __device__ __forceinline__ int blocks() const {
    return kSpare ? (1 << log_blocks_) - spare_ : 1 << log_blocks_;
  }
  // The index within its cluster of block number `part`, which counts the blocks of all clusters.
  __device__ __forceinline__ int block_of(int part) const {
    if constexpr (!kSpare) return part & (blocks() - 1);
    return part - divide(part, 0) * blocks();
  }
  // The beginning of part number `part` of blocks() << log_parts nearly equal parts of [0, total);
  // a multiple of 64.
  __device__ __forceinline__ int begin(int total, int log_parts, int part) const {
    return min(total, divide((total + 63) / 64 * part, log_parts) * 64);
  }
  // A block's share of `total`, rounded up; at most one more than that.
  __device__ __forceinline__ int share(int total) const { return divide(total + blocks() - 1, 0); }

 private:
  __device__ __forceinline__ int divide(int n, int log_parts) const {
    if constexpr (!kSpare) return n >> (log_blocks_ + log_parts);
    return static_cast<int>((static_cast<unsigned>(n) * reciprocal_) >> (16 + log_parts));
  }

  int log_blocks_, spare_;
  unsigned reciprocal_;
};

// The beginning and end of a block's own part of the work: elements of `in`, and columns.
struct SgmvWork {
  LoraEntry entry;
  int in_begin, in_end;
  int column_begin, column_end;
};

// The rows of x and y that a thread copies, multiplies and writes; -1: none.
template <int kTileRows>
struct SgmvRows {
  using Shape = SgmvShape<kTileRows>;
  static constexpr int kPieces = Shape::kInputs / 8;  // 16-byte pieces in a row of an A stage
  static constexpr int kRowsAtOnce = kLoraThreads / kPieces;
  static constexpr int kCopies = Shape::kRowBytes / 16 / kLoraThreads;
  std::int32_t copied[kCopies];  // row threadIdx.x / kPieces of the tile, then every kRowsAtOnce
  std::int32_t own[2];           // rows lane / 4, and 8 further, of its warp's 16

  __device__ __forceinline__ SgmvRows(const LoraParams& p, const LoraTile& tile) {
    const auto row = [&](int at) {
      return at < tile.count ? static_cast<std::int32_t>(row_of(p, tile.first + at)) : -1;
    };
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      copied[i] = row(static_cast<int>(threadIdx.x) / kPieces + i * kRowsAtOnce);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      own[h] = row(sgmv_row<Shape>() + static_cast<int>(threadIdx.x % 32 / 4) + h * 8);
    }
  }
};

}  // namespace tandem::cuda
