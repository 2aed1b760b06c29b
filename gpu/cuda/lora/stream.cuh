// The weights a warp reads, as one stream of stages through a ring in shared memory that belongs to
// this warp alone: first its pieces of A, then its pieces of B. Asynchronous 16-byte copies; a
// stage is 4 KiB; no barrier but the warp's own.
//
//   A stage: 16 ranks x 128 elements of `in`, rows of 256 bytes
//   B stage: whole units of 32 columns when B's rows have 8, 16, 32 or 64 elements (then they are
//            one run of bytes); else one unit x 64 ranks, rows of 128 bytes, zeros after B's own
//
// Rows of 128 bytes or multiples have their 64-byte halves exchanged in odd rows, so that the eight
// lanes of a 16-byte shared load, which read two rows, meet all banks.
#pragma once

#include "gpu/cuda/lora/mma.cuh"
#include "gpu/cuda/lora/tile.cuh"

namespace tandem::cuda {

inline constexpr int kLoraWarps = 8;
inline constexpr int kLoraThreads = 32 * kLoraWarps;
inline constexpr int kStageBytes = 4096;
inline constexpr int kStages = 3;
inline constexpr int kRingBytes = kStageBytes * kStages;
inline constexpr int kUnit = 32;       // elements of `in`, or columns of y
inline constexpr int kChunkUnits = 4;  // of an A stage
inline constexpr int kPairRanks = 16;  // of an A stage
inline constexpr int kPassRanks = 64;  // ranks that a warp accumulates at once
inline constexpr int kStepRanks = 64;  // of a B stage

// The pieces of [0, total) in `parts` nearly equal parts.
struct LoraRange {
  int begin;
  int end;
  __device__ __forceinline__ LoraRange(int total, int parts, int part) {
    const int each = total / parts;
    const int more = total - each * parts;
    begin = part * each + min(part, more);
    end = begin + each + (part < more ? 1 : 0);
  }
};

// From a byte of an adapter to its address.
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
};

__device__ __forceinline__ unsigned swap_halves(unsigned offset, int odd_bit) {
  return offset ^ (((offset >> odd_bit) & 1) << 6);
}

// 16 bytes to shared memory; zeros where `ok` is false.
__device__ __forceinline__ void copy16(unsigned to, const std::byte* from, bool ok) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(ok ? 16 : 0)
               : "memory");
}

template <typename T, bool kPaged>
class WeightStream {
 public:
  // `ring`: shared address of this warp's kRingBytes. `k` and `columns`: this warp's units.
  // `loop_rank`: how many ranks will be taken, the adapter's or more (then zeros).
  __device__ __forceinline__ WeightStream(const LoraParams& p, int slot, const LoraEntry& entry,
                                          int cols, LoraRange k, LoraRange columns, int loop_rank,
                                          unsigned ring)
      : bytes_(p, slot),
        entry_(entry),
        loop_rank_(loop_rank),
        in_(p.in),
        cols_(cols),
        k_(k),
        columns_(columns),
        ring_(ring),
        unit_(k.begin),
        column_(columns.begin) {
    const int stride = entry.b_stride;
    whole_rows_ = stride == 8 || stride == 16 || stride == 32 || stride == 64;
    per_stage_ = whole_rows_ ? kStepRanks / stride : 1;
    in_a_ = k.begin < k.end;
  }

  // Sends for the next stage, into the slot after the last one's; nothing when all was sent for.
  __device__ __forceinline__ void send() {
    const unsigned slot = ring_ + static_cast<unsigned>(sent_) * kStageBytes;
    sent_ = sent_ + 1 == kStages ? 0 : sent_ + 1;
    if (in_a_) {
      send_a(slot);
    } else if (column_ < columns_.end) {
      send_b(slot);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  // The shared address of the oldest stage, once it is there.
  __device__ __forceinline__ unsigned take() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 1) : "memory");
    __syncwarp();
    const unsigned slot = ring_ + static_cast<unsigned>(taken_) * kStageBytes;
    taken_ = taken_ + 1 == kStages ? 0 : taken_ + 1;
    return slot;
  }

  // The stage of the last take() has been read by the whole warp: reuse it.
  __device__ __forceinline__ void release() {
    __syncwarp();
    send();
  }

  __device__ __forceinline__ int units_per_stage() const { return per_stage_; }
  __device__ __forceinline__ bool whole_rows() const { return whole_rows_; }

 private:
  __device__ __forceinline__ void send_a(unsigned slot) {
    const int lane = threadIdx.x % 32;
    const auto piece = static_cast<unsigned>(lane % 16 * 16);
    int r = rank_ + lane / 16;
    const std::uint64_t row_bytes = static_cast<std::uint64_t>(in_) * sizeof(T);
    constexpr auto kSize = static_cast<unsigned>(sizeof(T));
    const unsigned begin = static_cast<unsigned>(unit_) * kUnit * kSize + piece;
    const unsigned end = static_cast<unsigned>(min(k_.end * kUnit, in_)) * kSize;
    std::uint64_t from = entry_.a + static_cast<std::uint64_t>(r) * row_bytes + begin;
    unsigned to = static_cast<unsigned>(lane) * 16;
    to = slot + swap_halves(to, 8);
#pragma unroll
    for (int i = 0; i < kPairRanks / 2; ++i) {
      const bool ok = begin < end && r < entry_.rank;
      copy16(to, ok ? bytes_.at(from) : nullptr, ok);
      r += 2;
      from += 2 * row_bytes;
      to += 512;
    }
    // Next: further along `in`, then the next ranks.
    unit_ += kChunkUnits;
    if (unit_ < k_.end) return;
    unit_ = k_.begin;
    rank_ += kPairRanks;
    in_a_ = rank_ < loop_rank_;
  }

  __device__ __forceinline__ void send_b(unsigned slot) {
    const int lane = threadIdx.x % 32;
    constexpr auto kSize = static_cast<unsigned>(sizeof(T));
    const unsigned row_bytes = static_cast<unsigned>(entry_.b_stride) * kSize;
    const int rows = min(min(column_ + per_stage_, columns_.end) * kUnit, cols_) - column_ * kUnit;
    std::uint64_t from = entry_.b + static_cast<std::uint64_t>(column_) * kUnit * row_bytes;
    unsigned to = static_cast<unsigned>(lane) * 16;
    if (whole_rows_) {
      const unsigned bytes = static_cast<unsigned>(rows) * row_bytes;
      from += to;
      const unsigned swapped = row_bytes == 128 ? swap_halves(to, 7) : to;
#pragma unroll
      for (int i = 0; i < kStageBytes / 512; ++i) {
        const bool ok = to < bytes;
        copy16(slot + swapped + static_cast<unsigned>(i) * 512, ok ? bytes_.at(from) : nullptr, ok);
        to += 512;
        from += 512;
      }
      column_ += per_stage_;
      return;
    }
    const unsigned piece = static_cast<unsigned>(step_) * kSize + to % 128;
    int row = lane / 8;
    from += static_cast<unsigned>(row) * row_bytes + piece;
    to = slot + swap_halves(to, 7);
#pragma unroll 4
    for (int i = 0; i < kStageBytes / 512; ++i) {
      const bool ok = row < rows && piece < row_bytes;
      copy16(to, ok ? bytes_.at(from) : nullptr, ok);
      to += 512;
      row += 4;
      from += std::uint64_t{4} * row_bytes;
    }
    step_ += kStepRanks;
    if (step_ < loop_rank_) return;
    step_ = 0;
    ++column_;
  }

  const WeightBytes<kPaged> bytes_;
  const LoraEntry entry_;
  const int loop_rank_;
  const int in_;
  const int cols_;
  const LoraRange k_;
  const LoraRange columns_;
  const unsigned ring_;
  int per_stage_;
  bool whole_rows_;
  // The next stage to send for.
  bool in_a_;
  int rank_ = 0;
  int unit_;
  int column_;
  int step_ = 0;
  int sent_ = 0;
  int taken_ = 0;
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
