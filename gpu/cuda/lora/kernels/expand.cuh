// y += v B^T for a tile: one warp's columns.
#pragma once

#include "gpu/cuda/lora/kernels/shrink.cuh"

namespace tandem::cuda {

// Adds eight neighbouring columns to y; `old` is y's value unless y is f32 (`wide`).
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

// A unit is 32 columns: four products of eight columns, assigned so that a thread's results are
// eight neighbours (column 8t + 2j + c of the unit is column 2t + c of product j). v's high part is
// rows 0 to 7 of the product and its low part rows 8 to 15, so that one product gives both.
template <typename T, typename Stream>
class Expand {
 public:
  // `row`: the lane's row of y; -1: none.
  __device__ __forceinline__ Expand(const LoraParams& p, const LoraWork& work, Stream& stream,
                                    std::int32_t row, const LoraOutput& out)
      : w_(work), stream_(stream), any_(row >= 0), wide_(p.out_type == LoraType::f32) {
    const int size = wide_ ? 4 : static_cast<int>(sizeof(T));
    unit_bytes_ = kUnit * size;
    y_ = static_cast<std::byte*>(out.data) + row * out.stride * size +
         (w_.columns.begin * kUnit + 8 * w_.t) * size;
  }

  // Loads y's values for the first units. Called once before any run, so that the loads are in
  // flight while the cluster synchronises.
  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int pair = 0; pair < kMostAhead / 2; ++pair) {
      if (pair == 0 || w_.entry.b_stride <= 16) load_pair(pair, w_.columns.begin + 2 * pair);
    }
  }

  // Rows of B with 8 kWords (1, 2, 4) or 64 ranks: a stage has whole units. `high`, `low`: shared
  // addresses of v, with rows `pitch` bytes apart.
  template <int kWords>
  __device__ __forceinline__ void run_whole_rows(unsigned high, unsigned low, unsigned pitch) {
    constexpr int kAhead = kWords == 4 ? 2 : kMostAhead;
    const unsigned b_row = static_cast<unsigned>(w_.entry.b_stride) * kSize;
    const unsigned piece = static_cast<unsigned>(w_.t) * 4 * kWords;
    const unsigned lane =
        place_of_b(static_cast<unsigned>(w_.g / 2 * 8 + w_.g % 2) * b_row + piece, b_row);
    const bool two = kWords == 4 && w_.entry.b_stride == 64;
    high += static_cast<unsigned>(w_.g) * pitch + piece;
    low += static_cast<unsigned>(w_.g) * pitch + piece;
    Left<kWords> left;
    if (kWords < 4) left = load_left<kWords>(high, low);
    const int per_stage = stream_.units_per_stage();
    unsigned stage = 0;
    int in_stage = 0;  // units left in the stage
#pragma unroll 1
    for (int first = w_.columns.begin; first < w_.columns.end; first += kAhead) {
#pragma unroll
      for (int b = 0; b < kAhead; ++b) {
        if (first + b >= w_.columns.end) break;
        if (in_stage == 0) {
          stage = stream_.take() + lane;
          in_stage = per_stage;
        }
        float acc[4][4] = {};
        if (kWords == 4) left = load_left<kWords>(high, low);
        step<kWords>(acc, stage, 2 * b_row, left);
        if (two) {
          left = load_left<kWords>(high + 64, low + 64);
          step<kWords>(acc, stage ^ 64U, 2 * b_row, left);
        }
        store<kAhead>(first, b, acc);
        stage += kUnit * b_row;
        if (--in_stage == 0) stream_.release_whole_rows();
      }
    }
  }

  // Rows of B in pieces of 64 ranks: a stage has one unit.
  __device__ __forceinline__ void run_pieces(unsigned high, unsigned low, unsigned pitch) {
    constexpr int kAhead = 2;
    const unsigned piece = static_cast<unsigned>(w_.t) * 16;
    const unsigned lane =
        place_of_b(static_cast<unsigned>(w_.g / 2 * 8 + w_.g % 2) * 128 + piece, 128);
    high += static_cast<unsigned>(w_.g) * pitch + piece;
    low += static_cast<unsigned>(w_.g) * pitch + piece;
#pragma unroll 1
    for (int first = w_.columns.begin; first < w_.columns.end; first += kAhead) {
#pragma unroll
      for (int b = 0; b < kAhead; ++b) {
        if (first + b >= w_.columns.end) break;
        float acc[4][4] = {};
#pragma unroll 1
        for (int r = 0; r < w_.rank; r += kStepRanks) {
          const unsigned stage = stream_.take() + lane;
          const unsigned at = static_cast<unsigned>(r) * kSize;
          step<4>(acc, stage, 256, load_left<4>(high + at, low + at));
          step<4>(acc, stage ^ 64U, 256, load_left<4>(high + at + 64, low + at + 64));
          stream_.release_piece();
        }
        store<kAhead>(first, b, acc);
      }
    }
  }

 private:
  static constexpr int kMostAhead = 4;  // units of y in flight
  static constexpr auto kSize = static_cast<unsigned>(sizeof(T));

  __device__ __forceinline__ bool has(int unit) const {
    return any_ && unit < w_.columns.end && unit * kUnit + 8 * w_.t < w_.cols;
  }

  // Loads two units, one cache line of y, as numbers 2 `pair` and the next. A store to a line with
  // a pending load stalls the whole multiprocessor (4096 to 14336, rank 8, 256 rows: 122 us instead
  // of 50), so lines are loaded as a whole, and parts begin at a line.
  __device__ __forceinline__ void load_pair(int pair, int unit) {
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      old_[2 * pair + b] = load_activations(y_ + (unit + b - w_.columns.begin) * unit_bytes_,
                                            has(unit + b) && !wide_);
    }
  }

  // Adds the products to y's unit first + b; once a pair is stored, loads the one after the next.
  template <int kAhead>
  __device__ __forceinline__ void store(int first, int b, const float (&acc)[4][4]) {
    const int unit = first + b;
    if (has(unit)) {
      float delta[8];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        delta[2 * j] = acc[j][0] + acc[j][2];
        delta[2 * j + 1] = acc[j][1] + acc[j][3];
      }
      add_to_row<T>(y_ + (unit - w_.columns.begin) * unit_bytes_, wide_, old_[b], delta);
    }
    if (b % 2 == 1) load_pair(b / 2, first + b / 2 * 2 + kAhead);
  }

  // v as high and low, for an existing row: there may be no shared memory after the last row.
  template <int kWords>
  struct Left {
    Words<kWords> high, low;
  };
  template <int kWords>
  __device__ __forceinline__ Left<kWords> load_left(unsigned high, unsigned low) const {
    Left<kWords> left{};
    if (any_) left = {load_shared<kWords>(high), load_shared<kWords>(low)};
    return left;
  }

  // Products for 8 kWords ranks. Consecutive products' first rows of B are `next` bytes apart; for
  // narrow rows, place_of_b permutes those.
  template <int kWords>
  __device__ __forceinline__ void step(float (&acc)[4][4], unsigned b, unsigned next,
                                       const Left<kWords>& left) {
    Words<kWords> right[4];
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) {
      right[j] = load_shared<kWords>(kWords < 4 ? b ^ (j * next) : b + j * next);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) multiply<T>(acc[j], left.high, left.low, right[j]);
  }

  const LoraWork& w_;
  Stream& stream_;
  const bool any_;
  const bool wide_;
  std::byte* y_;  // address of this lane's columns of the first unit
  int unit_bytes_;
  Words<4> old_[kMostAhead];
};

// Chooses the method that suits the width of B's rows.
template <typename T, typename Stream>
__device__ __forceinline__ void run_expand(Expand<T, Stream>& expand, const Stream& stream,
                                           int b_stride, unsigned high, unsigned low,
                                           unsigned pitch) {
  if (!stream.whole_rows()) {
    expand.run_pieces(high, low, pitch);
  } else if (b_stride == 8) {
    expand.template run_whole_rows<1>(high, low, pitch);
  } else if (b_stride == 16) {
    expand.template run_whole_rows<2>(high, low, pitch);
  } else {
    expand.template run_whole_rows<4>(high, low, pitch);
  }
}

}  // namespace tandem::cuda
