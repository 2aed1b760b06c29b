// y += v B^T of a tile, one warp's columns.
#pragma once

#include "gpu/cuda/lora/kernels/shrink.cuh"

namespace tandem::cuda {

// Adds eight neighbouring columns to y; `old` is what y holds, unless it is wide (f32).
template <typename T>
__device__ __forceinline__ void add_to_row(std::byte* row, bool wide, const Words<4>& old,
                                           const float (&delta)[8]) {
  if (wide) {
    float4* y = reinterpret_cast<float4*>(row);
    y[0] = sum_of(y[0], make_float4(delta[0], delta[1], delta[2], delta[3]));
    y[1] = sum_of(y[1], make_float4(delta[4], delta[5], delta[6], delta[7]));
    return;
  }
  unsigned sums[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 value = unpack(T(), old.w[i]);
    sums[i] = pack(T(), value.x + delta[2 * i], value.y + delta[2 * i + 1]);
  }
  *reinterpret_cast<uint4*>(row) = make_uint4(sums[0], sums[1], sums[2], sums[3]);
}

// A unit is 32 columns: four products of eight columns, so chosen that a thread's results are eight
// neighbours (column 8t + 2j + c of the unit is column 2t + c of product j). v's high part is rows
// 0 to 7 of the product and its low part rows 8 to 15, so that one product gives both.
template <typename T, bool kPaged>
class Expand {
 public:
  // `row`: the lane's of y, -1: none.
  __device__ __forceinline__ Expand(const LoraParams& p, const LoraWork& work,
                                    WeightStream<T, kPaged>& stream, std::int32_t row,
                                    const LoraOutput& out)
      : w_(work), stream_(stream), any_(row >= 0), wide_(p.out_type == LoraType::f32) {
    const int size = wide_ ? 4 : static_cast<int>(sizeof(T));
    unit_bytes_ = kUnit * size;
    y_ = static_cast<std::byte*>(out.data) + row * out.stride * size +
         (w_.columns.begin * kUnit + 8 * w_.t) * size;
  }

  // Loads what y holds at `unit` and at the next before `end`. Called once before any run, so that
  // it travels while the cluster meets. Never for units beyond these: a store to a line that a load
  // is still waiting for holds up all of the multiprocessor (4096 to 14336, rank 8, 256 rows: 122
  // us instead of 50).
  __device__ __forceinline__ void load_old(int unit, int end) {
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      old_[b] = load_activations(y_ + b * unit_bytes_, unit + b < end && has(unit + b) && !wide_);
    }
  }

  // Rows of B of 8 kWords (1, 2, 4) or 64 ranks: whole units to a stage. `high`, `low`: shared
  // addresses of v, rows `pitch` bytes apart.
  template <int kWords>
  __device__ __forceinline__ void run_whole_rows(unsigned high, unsigned low, unsigned pitch) {
    const unsigned b_row = static_cast<unsigned>(w_.entry.b_stride) * kSize;
    const unsigned piece = static_cast<unsigned>(w_.t) * 4 * kWords;
    const unsigned lane = static_cast<unsigned>(w_.g / 2 * 8 + w_.g % 2) * b_row + piece;
    const bool two = kWords == 4 && w_.entry.b_stride == 64;
    const unsigned swap = two ? (w_.g & 1) * 64U : 0;
    high += static_cast<unsigned>(w_.g) * pitch + piece;
    low += static_cast<unsigned>(w_.g) * pitch + piece;
    const int per_stage = stream_.units_per_stage();
#pragma unroll 1
    for (int unit = w_.columns.begin; unit < w_.columns.end;) {
      unsigned stage = stream_.take() + lane;
      const int end = min(unit + per_stage, w_.columns.end);
#pragma unroll 1
      while (unit < end) {
        begin_unit(unit, end);
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
          if (unit >= end) break;
          float acc[4][4] = {};
          step<kWords>(acc, stage + swap, 2 * b_row, high, low);
          if (two) step<kWords>(acc, stage + (64 - swap), 2 * b_row, high + 64, low + 64);
          store(unit, b, acc);
          stage += kUnit * b_row;
          ++unit;
        }
      }
      stream_.release();
    }
  }

  // Rows of B in pieces of 64 ranks, one unit to a stage.
  __device__ __forceinline__ void run_pieces(unsigned high, unsigned low, unsigned pitch) {
    const unsigned piece = static_cast<unsigned>(w_.t) * 16;
    const unsigned lane = static_cast<unsigned>(w_.g / 2 * 8 + w_.g % 2) * 128 + piece;
    const unsigned swap = (w_.g & 1) * 64U;
    high += static_cast<unsigned>(w_.g) * pitch + piece;
    low += static_cast<unsigned>(w_.g) * pitch + piece;
#pragma unroll 1
    for (int unit = w_.columns.begin; unit < w_.columns.end; ++unit) {
      begin_unit(unit, unit + 1);
      float acc[4][4] = {};
#pragma unroll 1
      for (int r = 0; r < w_.rank; r += kStepRanks) {
        const unsigned stage = stream_.take() + lane;
        const unsigned at = static_cast<unsigned>(r) * kSize;
        step<4>(acc, stage + swap, 256, high + at, low + at);
        step<4>(acc, stage + (64 - swap), 256, high + at + 64, low + at + 64);
        stream_.release();
      }
      store(unit, 0, acc);
    }
  }

 private:
  static constexpr int kBatch = 2;
  static constexpr auto kSize = static_cast<unsigned>(sizeof(T));

  __device__ __forceinline__ bool has(int unit) const {
    return any_ && unit < w_.columns.end && unit * kUnit + 8 * w_.t < w_.cols;
  }

  __device__ __forceinline__ void begin_unit(int unit, int end) {
    if (unit != w_.columns.begin) load_old(unit, end);
  }

  // y of `unit`, number b of the batch, += the products.
  __device__ __forceinline__ void store(int unit, int b, const float (&acc)[4][4]) {
    std::byte* here = y_;
    y_ += unit_bytes_;
    if (!has(unit)) return;
    float delta[8];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      delta[2 * j] = acc[j][0] + acc[j][2];
      delta[2 * j + 1] = acc[j][1] + acc[j][3];
    }
    add_to_row<T>(here, wide_, old_[b], delta);
  }

  // 8 kWords ranks. Products j read rows of B `next` bytes apart.
  template <int kWords>
  __device__ __forceinline__ void step(float (&acc)[4][4], unsigned b, unsigned next, unsigned high,
                                       unsigned low) {
    Words<kWords> right[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) right[j] = load_shared<kWords>(b + static_cast<unsigned>(j) * next);
    // Of a row that exists; shared memory need not go on after the last.
    Words<kWords> upper{};
    Words<kWords> lower{};
    if (any_) upper = load_shared<kWords>(high);
    if (any_) lower = load_shared<kWords>(low);
#pragma unroll
    for (int j = 0; j < 4; ++j) multiply<T>(acc[j], upper, lower, right[j]);
  }

  const LoraWork& w_;
  WeightStream<T, kPaged>& stream_;
  const bool any_;
  const bool wide_;
  std::byte* y_;  // this lane's columns of the unit at hand
  int unit_bytes_;
  Words<4> old_[kBatch];
};

}  // namespace tandem::cuda
