// The weights that a warp reads, as one stream of stages through a ring in shared memory that
// belongs to this warp alone: first its pieces of A, then its pieces of B. Copies are asynchronous,
// 16 bytes each; a stage is 4 KiB; the only barrier is the warp's own.
//
//   A stage: 16 ranks x 128 elements of `in`, rows of 256 bytes; or 8 x 256 in launches with at
//            most eight ranks
//   B stage: whole units of 32 columns if B's rows have 8, 16, 32 or 64 elements (contiguous
//            bytes); otherwise one unit x 64 ranks, rows of 128 bytes, with zeros after B's own
//
// Rows whose size is a multiple of 128 bytes have their 64-byte halves swapped in odd rows, so that
// the eight lanes of a 16-byte shared load, which read two rows, touch all banks.
#pragma once

#include "gpu/cuda/base/cache_policy.cuh"
#include "gpu/cuda/lora/kernels/mma.cuh"
#include "gpu/cuda/lora/kernels/tile.cuh"

namespace tandem::cuda {

inline constexpr int kShortTileRows = 8;  // rows per tile in fused.cuh
inline constexpr int kLogLoraWarps = 3;
inline constexpr int kLoraWarps = 1 << kLogLoraWarps;
inline constexpr int kLoraThreads = 32 * kLoraWarps;
inline constexpr int kStageBytes = 4096;
inline constexpr int kStages = 3;
inline constexpr int kUnit = 32;       // elements of `in`, or columns of y
inline constexpr int kChunkUnits = 4;  // per A stage
inline constexpr int kPairRanks = 16;  // per A stage
inline constexpr int kPassRanks = 64;  // ranks that the warps sum up together
inline constexpr int kStepRanks = 64;  // per B stage

// Part number `part` of [0, total) when it is cut into 2^log_parts nearly equal parts.
struct LoraRange {
  int begin;
  int end;
  __device__ __forceinline__ LoraRange(int total, int log_parts, int part)
      : begin((total * part) >> log_parts), end((total * (part + 1)) >> log_parts) {}
};

// The warps of a block divide a pass of up to 64 ranks into 2^log_groups groups of warps, by pairs
// of eight ranks; the warps of a group split `in`. Long pieces of few rows of A are better than
// short pieces of many, and leave fewer partial sums. Three pairs are processed one after another.
__host__ __device__ inline int log_rank_groups(int pass_ranks) {
  if (pass_ranks > 2 * kPairRanks) return pass_ranks <= 3 * kPairRanks ? 0 : 2;
  return pass_ranks > kPairRanks ? 1 : 0;
}

// Maps a byte of an adapter to its address.
template <bool kPaged>
struct WeightBytes {
  const std::byte* base;
  const std::int32_t* ids;
  unsigned mask;
  int shift;

  __device__ __forceinline__ WeightBytes(const LoraParams& p, int slot)
      : base(p.page_base),
        ids(kPaged ? p.page_ids + slot * p.page_slot_stride : nullptr),
        mask((1U << p.page_shift) - 1),
        shift(p.page_shift) {}

  __device__ __forceinline__ const std::byte* at(std::uint64_t byte) const {
    if constexpr (!kPaged) return reinterpret_cast<const std::byte*>(byte);
    const auto id = static_cast<std::uint32_t>(__ldg(ids + (byte >> shift)));
    return base + (static_cast<std::uint64_t>(id) << shift) + (static_cast<unsigned>(byte) & mask);
  }

  // The `size` bytes that begin at `byte`; null if they lie in more than one page.
  __device__ __forceinline__ const std::byte* run(std::uint64_t byte, unsigned size) const {
    if (kPaged && (static_cast<unsigned>(byte) & mask) + size > mask + 1) return nullptr;
    return at(byte);
  }
};

__device__ __forceinline__ unsigned swap_halves(unsigned offset, int odd_bit) {
  return offset ^ (((offset >> odd_bit) & 1) << 6);
}

// Copies 16 bytes to shared memory; zeros if `ok` is false. `policy`: cache_policy.cuh.
__device__ __forceinline__ void copy16(unsigned to, const std::byte* from, bool ok,
                                       std::uint64_t policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(to),
               "l"(from), "r"(ok ? 16 : 0), "l"(policy)
               : "memory");
}

// The data that a block has about its work.
struct LoraWork {
  LoraEntry entry;
  int rank;  // for the loops: the adapter's rank, or what it is padded to
  int in;
  int cols;
  int warp;           // in the block
  int g, t;           // of the lane, see mma.cuh
  int block;          // in the cluster
  int log_blocks;     // in the cluster
  LoraRange columns;  // this warp's units

  // This warp's units of `in` in a pass.
  __device__ __forceinline__ LoraRange inputs(int log_groups) const {
    const int log_parts = kLogLoraWarps - log_groups;
    return {(in + kUnit - 1) / kUnit, log_blocks + log_parts,
            (block << log_parts) + (warp >> log_groups)};
  }
};

// The place of a byte of B in its stage. Lanes that read together read two neighbouring rows, or 64
// bytes of them, the first of which are 0, 8, 16 and 24 or the same at an offset (expand.cuh):
// pieces of 16 bytes are permuted so that these touch all banks, as do pieces that are written
// together. The permutation stays within 512 bytes, at multiples of which stages begin.
__device__ __forceinline__ unsigned place_of_b(unsigned at, unsigned row_bytes) {
  if (row_bytes == 16) return at ^ ((at >> 7 & 3) << 5);
  if (row_bytes == 32) return at ^ ((at >> 8 & 1) << 6);
  return row_bytes == 128 ? swap_halves(at, 7) : at;
}

// `kLowRank`: no adapter of the launch has more than eight ranks.
template <typename T, bool kPaged, bool kLowRank>
class WeightStream {
 public:
  // `ring`: shared address of this warp's kStages stages. `with_a` false: only B is read.
  __device__ __forceinline__ WeightStream(const LoraParams& p, int slot, const LoraWork& work,
                                          unsigned ring, bool with_a = true)
      : w_(work),
        bytes_(p, slot),
        ring_(ring),
        ring_end_(ring + kStages * kStageBytes),
        sent_(ring),
        taken_(ring),
        pass_(with_a ? 0 : work.rank),
        column_(work.columns.begin) {
    const int stride = w_.entry.b_stride;
    whole_rows_ = stride == 8 || stride == 16 || stride == 32 || stride == 64;
    per_stage_ = stride == 8 ? 8 : stride == 16 ? 4 : stride == 32 ? 2 : 1;
    begin_pass();
  }

  // Requests the next stage, into the slot after the last one's; nothing if all are requested.
  __device__ __forceinline__ void send() {
    if (in_a_) {
      if constexpr (kLowRank) {
        send_a_low_rank();
      } else {
        send_a();
      }
    } else if (whole_rows_) {
      send_whole_rows();
    } else {
      send_piece();
    }
    commit();
  }

  // Returns the shared address of the oldest stage, once it has arrived.
  __device__ __forceinline__ unsigned take() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 1) : "memory");
    __syncwarp();
    const unsigned slot = taken_;
    taken_ = taken_ + kStageBytes == ring_end_ ? ring_ : taken_ + kStageBytes;
    return slot;
  }

  // Reuses the stage of the last take(), which the whole warp has read. The second and third are
  // for stages of B, as whole_rows() says: less code, fewer registers.
  __device__ __forceinline__ void release() {
    __syncwarp();
    send();
  }
  __device__ __forceinline__ void release_whole_rows() {
    __syncwarp();
    send_whole_rows();
    commit();
  }
  __device__ __forceinline__ void release_piece() {
    __syncwarp();
    send_piece();
    commit();
  }

  __device__ __forceinline__ int units_per_stage() const { return per_stage_; }
  __device__ __forceinline__ bool whole_rows() const { return whole_rows_; }

 private:
  static constexpr auto kSize = static_cast<unsigned>(sizeof(T));

  __device__ __forceinline__ void commit() {
    sent_ = sent_ + kStageBytes == ring_end_ ? ring_ : sent_ + kStageBytes;
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  __device__ __forceinline__ void send_a() {
    const unsigned lane = threadIdx.x % 32;
    const unsigned row_bytes = static_cast<unsigned>(w_.in) * kSize;
    const unsigned begin = static_cast<unsigned>(unit_) * (kUnit * kSize) + lane % 16 * 16;
    const unsigned end = min(static_cast<unsigned>(unit_end_) * (kUnit * kSize), row_bytes);
    const int r = rank_ + static_cast<int>(lane / 16);
    // The number of rows of A left for this lane; none past the end of its piece of `in`.
    const int rows = begin < end ? w_.entry.rank - r : 0;
    std::uint64_t from =
        w_.entry.a + static_cast<std::uint64_t>(static_cast<unsigned>(r)) * row_bytes + begin;
    const unsigned to = sent_ + swap_halves(lane * 16, 8);
#pragma unroll
    for (int i = 0; i < kPairRanks / 2; ++i) {
      const bool ok = 2 * i < rows;
      copy16(to + static_cast<unsigned>(i) * 512, ok ? bytes_.at(from) : nullptr, ok, once_);
      from += 2 * row_bytes;
    }
    // Next: further along `in`, then this warp's next ranks in the pass, then the next pass.
    unit_ += kChunkUnits;
    if (unit_ < unit_end_) return;
    unit_ = unit_begin_;
    rank_ += kPairRanks << log_groups_;
    if (rank_ < min(pass_ + kPassRanks, w_.rank)) return;
    pass_ += kPassRanks;
    begin_pass();
  }

  // Eight ranks with twice as many elements each.
  __device__ __forceinline__ void send_a_low_rank() {
    const unsigned lane = threadIdx.x % 32;
    const unsigned row_bytes = static_cast<unsigned>(w_.in) * kSize;
    const unsigned begin = static_cast<unsigned>(unit_) * (kUnit * kSize) + lane * 16;
    const unsigned end = min(static_cast<unsigned>(unit_end_) * (kUnit * kSize), row_bytes);
    std::uint64_t from = w_.entry.a + begin;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const bool ok = begin < end && i < w_.entry.rank;
      copy16(sent_ + static_cast<unsigned>(i) * 512 + ((lane * 16) ^ (i % 2 * 64U)),
             ok ? bytes_.at(from) : nullptr, ok, once_);
      from += row_bytes;
    }
    unit_ += 2 * kChunkUnits;
    if (unit_ < unit_end_) return;
    pass_ += kPassRanks;
    in_a_ = false;
  }

  // Finds this warp's part of the pass, or of the next pass in which it has one.
  __device__ __forceinline__ void begin_pass() {
#pragma unroll 1
    for (;; pass_ += kPassRanks) {
      in_a_ = pass_ < w_.rank;
      if (!in_a_) return;
      log_groups_ = log_rank_groups(min(kPassRanks, w_.rank - pass_));
      const LoraRange k = w_.inputs(log_groups_);
      rank_ = pass_ + (w_.warp & ((1 << log_groups_) - 1)) * kPairRanks;
      unit_ = unit_begin_ = k.begin;
      unit_end_ = k.end;
      if (k.begin < k.end && rank_ < w_.rank) return;
    }
  }

  __device__ __forceinline__ void send_whole_rows() {
    if (column_ >= w_.columns.end) return;
    const unsigned row_bytes = static_cast<unsigned>(w_.entry.b_stride) * kSize;
    const unsigned rows =
        static_cast<unsigned>(min(min(column_ + per_stage_, w_.columns.end) * kUnit, w_.cols));
    const unsigned first = static_cast<unsigned>(column_) * kUnit;
    const unsigned bytes = (rows - first) * row_bytes;
    const unsigned at = threadIdx.x % 32 * 16;
    const unsigned to = sent_ + place_of_b(at, row_bytes);
    const std::uint64_t from = w_.entry.b + static_cast<std::uint64_t>(first) * row_bytes + at;
#pragma unroll
    for (unsigned i = 0; i < kStageBytes; i += 512) {
      const bool ok = at + i < bytes;
      copy16(to + i, ok ? bytes_.at(from + i) : nullptr, ok, once_);
    }
    column_ += per_stage_;
  }

  __device__ __forceinline__ void send_piece() {
    if (column_ >= w_.columns.end) return;
    const unsigned row_bytes = static_cast<unsigned>(w_.entry.b_stride) * kSize;
    const unsigned at = threadIdx.x % 32 * 16;
    const unsigned piece = static_cast<unsigned>(step_) * kSize + at % 128;
    int row = column_ * kUnit + static_cast<int>(at / 128);
    const int end = piece < row_bytes ? min((column_ + 1) * kUnit, w_.cols) : 0;
    unsigned to = sent_ + swap_halves(at, 7);
    std::uint64_t from =
        w_.entry.b + static_cast<std::uint64_t>(static_cast<unsigned>(row)) * row_bytes + piece;
#pragma unroll
    for (int i = 0; i < kStageBytes / 512; ++i) {
      const bool ok = row < end;
      copy16(to, ok ? bytes_.at(from) : nullptr, ok, once_);
      to += 512;
      row += 4;
      from += 4 * row_bytes;
    }
    step_ += kStepRanks;
    if (step_ < w_.rank) return;
    step_ = 0;
    ++column_;
  }

  const LoraWork& w_;
  const WeightBytes<kPaged> bytes_;
  const std::uint64_t once_ = evict_first_policy();
  const unsigned ring_;
  const unsigned ring_end_;
  unsigned sent_;
  unsigned taken_;
  int per_stage_;
  bool whole_rows_;
  // The next stage to request.
  bool in_a_;
  int log_groups_ = 0;
  int unit_begin_ = 0;
  int unit_end_ = 0;
  int unit_ = 0;
  int pass_;
  int rank_ = 0;
  int column_;
  int step_ = 0;
};

template <int kWords>
__device__ __forceinline__ Words<kWords> load_shared(unsigned from) {
  Words<kWords> v;
  if constexpr (kWords == 4) {
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
                 : "r"(from)
                 : "memory");
  } else if constexpr (kWords == 2) {
    asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];"
                 : "=r"(v.w[0]), "=r"(v.w[1])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v.w[0]) : "r"(from) : "memory");
  }
  return v;
}

}  // namespace tandem::cuda
