// The data that blocks of sgmv.cuh read, as one stream of stages through a ring in shared memory:
// pieces of A with the matching parts of x, then pieces of B with y's values. All threads issue
// asynchronous 16-byte copies. B and y do not depend on v, so they are in flight while v is summed.
//
//   stage of A: up to 64 ranks x kInputs elements of `in`;  with it kRows x kInputs of x
//   stage of B: kColumns columns x up to 64 ranks;          with it kRows x kColumns of y
//
// Pieces of 16 bytes are permuted within 128 bytes, so that the eight rows that ldmatrix reads
// together touch all banks. y lies as each thread reads it, since a thread copies its own part.
#pragma once

#include "gpu/cuda/lora/kernels/sgmv_tile.cuh"

namespace tandem::cuda {

// The permutation of 16-byte pieces in B's rows: the eight rows that one ldmatrix reads (0, 1, 8,
// 9, 16, 17, 24, 25 of a unit, or the same at an offset) get eight different numbers.
__device__ __forceinline__ unsigned column_swizzle(unsigned row) {
  return (row & 1) | ((row >> 3 & 3) << 1);
}

// Copies 16 bytes to shared memory if `any`; zeros if `ok` is false.
__device__ __forceinline__ void copy16_if(bool any, unsigned to, const std::byte* from, bool ok) {
  asm volatile(
      "{\n.reg .pred q;\nsetp.ne.s32 q, %3, 0;\n"
      "@q cp.async.cg.shared.global [%0], [%1], 16, %2;\n}" ::"r"(to),
      "l"(from), "r"(ok ? 16 : 0), "r"(static_cast<int>(any))
      : "memory");
}

__device__ __forceinline__ void prefetch_line(const std::byte* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

template <typename T, bool kPaged, int kTileRows>
class SgmvRing {
 public:
  using Shape = SgmvShape<kTileRows>;

  // `y`: this thread's own rows, column 0; null: not copied.
  __device__ __forceinline__ SgmvRing(const LoraParams& p, int slot, const SgmvWork& work,
                                      unsigned ring, const SgmvRows<kTileRows>& rows,
                                      const std::byte* const (&y)[2])
      : w_(work),
        bytes_(p, slot),
        ring_(ring),
        sent_(ring),
        taken_(ring),
        pass_(work.in_begin < work.in_end ? 0 : work.entry.rank),
        k_(work.in_begin),
        column_(work.column_begin),
        y_{y[0], y[1]} {
    const unsigned row = threadIdx.x / kPieces;
    const unsigned piece = threadIdx.x % kPieces;
    a_row_ = static_cast<unsigned>(p.in) * 2;
    a_from_ = work.entry.a + std::uint64_t{row} * a_row_ +
              static_cast<unsigned>(work.in_begin * 2) + piece * 16;
    a_to_ = row * (kPieces * 16) + ((piece ^ (row & 7)) * 16);
#pragma unroll
    for (int i = 0; i < Rows::kCopies; ++i) {
      x_[i] = reinterpret_cast<const std::byte*>(p.x) + rows.copied[i] * p.x_stride * 2 +
              work.in_begin * 2 + piece * 16;
      if (rows.copied[i] >= 0) has_ |= 1U << i;
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (y[h] != nullptr) has_ |= 1U << (8 + h);
    }
    b_row_ = static_cast<unsigned>(work.entry.b_stride) * 2;
    log_pieces_ = work.entry.rank <= 16 ? 1 : work.entry.rank <= 32 ? 2 : 3;
    begin_step();
  }

  // Prefetches this block's B into L2, unless it is too much to stay there, and the beginning of A
  // if there are `few` blocks.
  __device__ __forceinline__ void prefetch_weights(bool few) const {
    const int in_bytes =
        few ? min((w_.in_end - w_.in_begin) * 2, kPrefetchBytes / round_up(w_.entry.rank, 16)) : 0;
#pragma unroll 1
    for (int r = static_cast<int>(threadIdx.x / 8); in_bytes > 0 && r < w_.entry.rank;
         r += kLoraThreads / 8) {
      const std::uint64_t row = w_.entry.a + std::uint64_t{a_row_} * static_cast<unsigned>(r) +
                                static_cast<unsigned>(w_.in_begin * 2);
#pragma unroll 1
      for (int at = static_cast<int>(threadIdx.x % 8) * kLine; at < in_bytes; at += 8 * kLine) {
        prefetch_line(bytes_.at(row + static_cast<unsigned>(at)));
      }
    }
    const int bytes = (w_.column_end - w_.column_begin) * static_cast<int>(b_row_);
    if (bytes > kPrefetchBytes) return;
    const std::uint64_t begin =
        w_.entry.b + std::uint64_t{static_cast<unsigned>(w_.column_begin)} * b_row_;
#pragma unroll 1
    for (int at = static_cast<int>(threadIdx.x) * kLine; at < bytes; at += kLoraThreads * kLine) {
      prefetch_line(bytes_.at(begin + static_cast<unsigned>(at)));
    }
  }

  // Requests the first stages. For later stages it prefetches into L2 the `count` rows of y, unless
  // they are too much to stay there, and those of x if there are `few` blocks. With more blocks
  // that costs time, as does prefetching on from stage to stage (8,192 rows, 4096 to 14336, rank
  // 64: 193 us instead of 171).
  __device__ __forceinline__ void fill(bool few, int count) {
#pragma unroll 1
    for (int i = 0; i + 1 < Shape::kStages; ++i) send();
    const bool early_y = count * (w_.column_end - w_.column_begin) <= kPrefetchColumns;
#pragma unroll 1
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int k = k_ + ahead * Shape::kInputs + static_cast<int>(threadIdx.x % kPieces) * 8;
      if (few && pass_ == 0 && k < w_.in_end) {
#pragma unroll
        for (int i = 0; i < Rows::kCopies; ++i) {
          if ((has_ >> i & 1) != 0) prefetch_line(x_[i] + ahead * Shape::kInputs * 2);
        }
      }
      const int column = column_ + ahead * Shape::kColumns + sgmv_column<Shape>();
      if (early_y && column < w_.column_end) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          if ((has_ >> (8 + h) & 1) != 0) prefetch_line(y_[h] + column * 2);
        }
      }
    }
  }

  // The shared address of the oldest stage, once it has arrived for the whole block. All have read
  // the stage before it, whose space is requested anew. The second is for stages of B.
  __device__ __forceinline__ unsigned take() {
    wait();
    send();
    return next();
  }
  __device__ __forceinline__ unsigned take_b() {
    wait();
    if (column_ < w_.column_end) send_b();
    commit();
    return next();
  }

 private:
  using Rows = SgmvRows<kTileRows>;
  static constexpr int kPieces = Rows::kPieces;
  static constexpr int kLine = 64;  // bytes per prefetch
  static constexpr int kAhead = 6;  // stages prefetched into L2
  static constexpr int kWeightCopies = Shape::kWeightBytes / 16 / kLoraThreads;

  __device__ __forceinline__ unsigned after(unsigned slot) const {
    slot += Shape::kBytes;
    return slot == ring_ + Shape::kStages * Shape::kBytes ? ring_ : slot;
  }
  __device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Shape::kStages - 2) : "memory");
    __syncthreads();
  }
  __device__ __forceinline__ unsigned next() {
    const unsigned slot = taken_;
    taken_ = after(taken_);
    return slot;
  }
  __device__ __forceinline__ void commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
    sent_ = after(sent_);
  }

  __device__ __forceinline__ void send() {
    if (pass_ < w_.entry.rank) {
      send_a();
    } else if (column_ < w_.column_end) {
      send_b();
    }
    commit();
  }

  // Fills ranks past the adapter's and inputs past the block's with zeros; leaves ranks that no
  // product reads, and rows that do not exist, unchanged.
  __device__ __forceinline__ void send_a() {
    const bool inside = k_ + static_cast<int>(threadIdx.x % kPieces) * 8 < w_.in_end;
    const int ranks = w_.entry.rank - pass_ - static_cast<int>(threadIdx.x / kPieces);
    const int whole =
        (w_.entry.rank - pass_ + 15) / 16 * 16 - static_cast<int>(threadIdx.x / kPieces);
    const unsigned to = sent_ + a_to_;
    std::uint64_t from = a_from_;
#pragma unroll
    for (int i = 0; i < kWeightCopies; ++i) {
      const bool ok = inside && i * Rows::kRowsAtOnce < ranks;
      copy16_if(i * Rows::kRowsAtOnce < whole, to + i * (kLoraThreads * 16),
                bytes_.at(ok ? from : w_.entry.a), ok);
      from += Rows::kRowsAtOnce * a_row_;
    }
#pragma unroll
    for (int i = 0; i < Rows::kCopies; ++i) {
      copy16_if((has_ >> i & 1) != 0, to + Shape::kWeightBytes + i * (kLoraThreads * 16), x_[i],
                inside);
      x_[i] += Shape::kInputs * 2;
    }
    k_ += Shape::kInputs;
    a_from_ += Shape::kInputs * 2;
    if (k_ < w_.in_end) return;
    const int back = (k_ - w_.in_begin) * 2;
    k_ = w_.in_begin;
    pass_ += kPassRanks;
    a_from_ += std::uint64_t{kPassRanks} * a_row_ - static_cast<unsigned>(back);
#pragma unroll
    for (int i = 0; i < Rows::kCopies; ++i) x_[i] -= back;
  }

  // Finds the part of the next stage of B that this thread copies.
  __device__ __forceinline__ void begin_step() {
    const unsigned row = threadIdx.x >> log_pieces_;
    const unsigned piece = threadIdx.x & ((1U << log_pieces_) - 1);
    b_to_ = row * 128 + ((piece ^ column_swizzle(row)) * 16);
    const unsigned within = static_cast<unsigned>(step_) * 2 + piece * 16;
    b_inside_ = within < b_row_;
    b_from_ = w_.entry.b + std::uint64_t{static_cast<unsigned>(column_) + row} * b_row_ + within;
  }

  // Fills ranks past B's rows with zeros; leaves columns past the block's unchanged.
  __device__ __forceinline__ void send_b() {
    const int at_once = kLoraThreads >> log_pieces_;
    const int row = static_cast<int>(threadIdx.x) >> log_pieces_;
    const int rows = min(w_.column_end - column_, Shape::kColumns) - row;
    std::uint64_t from = b_from_;
    unsigned to = sent_ + b_to_;
#pragma unroll
    for (int i = 0; i < kWeightCopies; ++i) {
      const bool any = i * at_once < rows;
      copy16_if(any, to, bytes_.at(any && b_inside_ ? from : w_.entry.b), b_inside_);
      from += static_cast<unsigned>(at_once) * b_row_;
      to += static_cast<unsigned>(at_once) * 128;
    }
    if (w_.entry.rank > kStepRanks) {
      step_ += kStepRanks;
      if (step_ < w_.entry.rank) {
        begin_step();
        return;
      }
      step_ = 0;
    }
    const int column = column_ + sgmv_column<Shape>();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      copy16_if((has_ >> (8 + h) & 1) != 0 && column < w_.column_end,
                sent_ + Shape::kWeightBytes + h * (kLoraThreads * 16) + threadIdx.x * 16,
                y_[h] + column * 2, true);
    }
    column_ += Shape::kColumns;
    if (w_.entry.rank > kStepRanks) {
      begin_step();
    } else {
      b_from_ += static_cast<unsigned>(Shape::kColumns) * b_row_;
    }
  }

  const SgmvWork& w_;
  const WeightBytes<kPaged> bytes_;
  const unsigned ring_;
  unsigned sent_;
  unsigned taken_;
  // The next stage to request.
  int pass_;
  int k_;
  int column_;
  int step_ = 0;
  // This thread's part of that stage: of A, x, B and y.
  std::uint64_t a_from_;
  unsigned a_to_, a_row_;
  const std::byte* x_[Rows::kCopies];
  unsigned has_ = 0;  // bit i: x_[i] is a row; bit 8 + h: y_[h] is a row
  std::uint64_t b_from_;
  unsigned b_to_, b_row_;
  int log_pieces_;  // log2 of the 16-byte pieces per column of B: 2, 4 or 8
  bool b_inside_;
  const std::byte* y_[2];
};

}  // namespace tandem::cuda
