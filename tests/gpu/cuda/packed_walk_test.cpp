// Walks through the product by a packed weight as its kernel does, lane by lane in plain loops: the
// copy engine's boxes, each lane's places, the tensor cores' operands, and the sums. Needs no GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gpu/cuda/gemm/packed/kernel/packed_codes.h"
#include "gpu/cuda/gemm/packed/kernel/packed_places.h"
#include "gpu/cuda/gemm/packed/kernel/packed_plan.h"
#include "gpu/cuda/packed/layout.h"
#include "tests/gpu/reference/packed_twin.h"
#include "tests/support/test_seed.h"

namespace tandem::cuda {
namespace {

template <typename T>
T read(const std::vector<std::uint8_t>& bytes, std::uint32_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// A packed weight and small integers as x, so that sums are exact.
struct Operands {
  PackedShape shape;
  std::vector<std::uint8_t> codes, arranged_codes, zeros;
  std::vector<float> scales;  // [rows, groups]
  std::vector<std::int16_t> x;
  Weight weight;

  Operands(const PackedShape& given, std::mt19937_64& random) : shape(given) {
    const int rows = w_rows();
    const int row_bytes = shape.in * shape.bits / 8;
    for (int i = 0; i < rows * row_bytes; ++i) codes.push_back(static_cast<std::uint8_t>(random()));
    for (int i = 0; i < rows * groups(); ++i) {
      scales.push_back(static_cast<float>(random() % 8 + 1) / 8);
      zeros.push_back(static_cast<std::uint8_t>(random() % 16));
    }
    for (int i = 0; i < shape.rows * shape.in; ++i) {
      x.push_back(static_cast<std::int16_t>(static_cast<int>(random() % 9) - 4));
    }
    arranged_codes.resize(codes.size());
    for (int row = 0; row < rows; ++row) {
      for (int c = 0; c < shape.in; ++c) {
        const int block = row * row_bytes + c / kPackedBlock * kPackedBlock * shape.bits / 8;
        const auto from = static_cast<std::size_t>(row * row_bytes + c * shape.bits / 8);
        if (shape.bits == 8) {
          const int to = block + arranged_byte(c % kPackedBlock);
          arranged_codes[static_cast<std::size_t>(to)] = codes[from];
        } else {
          const unsigned code = codes[from] >> (c % 2 * 4) & 15U;
          const int nibble = arranged_nibble(c % kPackedBlock);
          arranged_codes[static_cast<std::size_t>(block + nibble / 2)] |=
              static_cast<std::uint8_t>(code << (nibble % 2 * 4));
        }
      }
    }
    weight.form = {.format = WeightFormat::affine,
                   .bits = static_cast<std::uint8_t>(shape.bits),
                   .group = shape.group,
                   .scales = {.has_values = true}};
    weight.form.has_zeros = true;
    weight.packed_rows = rows;
    weight.packed_cols = shape.in;
    weight.packed.low = codes.data();
    weight.packed.scales = reinterpret_cast<std::byte*>(scales.data());
    weight.packed.zeros = zeros.data();
  }
  int w_rows() const { return shape.out * (shape.halves ? 2 : 1); }
  int groups() const { return shape.in / shape.group; }
};

// Copies what a stage holds; what lies outside of the operands becomes zeros.
std::vector<std::uint8_t> stage_of(const Operands& o, const PackedPlan& plan, int first_row,
                                   int chunk) {
  std::vector<std::uint8_t> stage(
      static_cast<std::size_t>(plan.stage_bytes + kPackedWideRows * kPackedLineBytes));
  const int row_bytes = o.shape.in * o.shape.bits / 8;
  for (int half = 0; half < (o.shape.halves ? 2 : 1); ++half) {
    const int first = first_row + half * o.shape.out;
    for (int slab = 0; slab < plan.slabs; ++slab) {
      for (int row = 0; row < plan.group_rows; ++row) {
        for (int piece = 0; piece < 8; ++piece) {
          const int byte = (chunk * plan.slabs + slab) * kPackedLineBytes + piece * 16;
          if (first + row >= o.w_rows() || byte >= row_bytes) continue;
          std::memcpy(stage.data() + half * plan.up + swizzled(slab * plan.group_rows + row, piece),
                      o.arranged_codes.data() + (first + row) * row_bytes + byte, 16);
        }
      }
    }
    for (int g = 0; g < plan.scale_groups; ++g) {
      for (int row = 0; row < plan.scale_rows; ++row) {
        const int group = chunk * plan.scale_groups + g;
        const int aligned = first - first % kPackedScaleStep;
        if (aligned + row >= o.w_rows() || group >= o.groups()) continue;
        const auto from = static_cast<std::size_t>((aligned + row) * o.groups() + group);
        const int to = half * plan.up_numbers + g * plan.scale_rows + row;
        std::memcpy(stage.data() + plan.scales + to * 4, &o.scales[from], 4);
        stage[static_cast<std::size_t>(plan.zeros + to)] = o.zeros[from];
      }
    }
  }
  for (int slab = 0; slab < plan.chunk() / 64; ++slab) {
    for (int row = 0; row < plan.x_rows; ++row) {
      for (int i = 0; i < 64; ++i) {
        const int column = chunk * plan.chunk() + slab * 64 + i;
        if (row >= o.shape.rows || column >= o.shape.in) continue;
        std::memcpy(stage.data() + plan.x + swizzled(slab * plan.x_rows + row, i / 8) + i % 8 * 2,
                    &o.x[static_cast<std::size_t>(row * o.shape.in + column)], 2);
      }
    }
  }
  return stage;
}

// The number that a lane's operand register holds for columns 16 s + 8 p + 2 (lane % 4) + e.
int operand(const std::vector<std::uint8_t>& stage, std::uint32_t at, int bits, int u, int i, int e,
            int zero) {
  if (bits == 4) {
    const auto word = read<std::uint32_t>(stage, at + static_cast<unsigned>(4 * u));
    return static_cast<int>(biased_pair4(word, i, 0) >> (16 * e) & 15U) - zero;
  }
  const std::uint32_t piece = at ^ static_cast<unsigned>(u / 2 * 64);
  const auto byte = static_cast<unsigned>(u % 2 * 8 + i / 2 * 4 + i % 2 + 2 * e);
  return read<std::uint8_t>(stage, piece + byte) - zero;
}

// Adds the sums of one warp's part of a stage to sums[slot][t]. `first`: the first row of w.
void multiply_part(const Operands& o, const PackedPlan& plan, int warp, int first,
                   const std::vector<std::uint8_t>& stage, std::vector<double>& sums) {
  const int units = std::min(o.shape.group, kPackedSlice) / 32;
  const int row_warp = warp % plan.row_warps;
  const int column_warp = warp / plan.row_warps;
  const auto places_of = [&](int lane) {
    return PackedPlaces(plan, o.shape.bits, o.shape.halves, 4 / units, row_warp, column_warp, lane,
                        first, first + o.shape.out);
  };
  // The place of row t and a column of the 32 of unit u in a copy of x.
  const auto x_of = [&](int part, int u, int t, int column) {
    if (plan.is_wide()) {  // as the warpgroup's product finds it
      const int slab = (column_warp * 2 + part) * 2 + u / 2;
      return static_cast<unsigned>(plan.x) +
             swizzled(slab * plan.x_rows + t, (u % 2 * 32 + column) / 8) +
             static_cast<unsigned>(column % 8 * 2);
    }
    // Matrix i of the four that are loaded: lane 8 i + n gave the address of its row n.
    return (places_of(8 * (column / 8) + t % 8).x[u / 2] ^ static_cast<unsigned>(u % 2 * 64)) +
           static_cast<unsigned>(t / 8 * 1024 + column % 8 * 2);
  };
  for (int lane = 0; lane < 32; ++lane) {
    const PackedPlaces places = places_of(lane);
    for (int part = 0; part < plan.row_tiles * plan.slices; ++part) {
      for (int h = 0; h < 2; ++h) {
        const int tile = row_warp * plan.row_tiles + part % plan.row_tiles;
        const int slot = tile * 16 + h * 8 + row_of_lane(lane);
        for (int u = 0; u < 4; ++u) {
          const auto number =
              places.number[part] + static_cast<unsigned>(8 * h + u / units * plan.scale_rows);
          const auto scale = read<float>(stage, static_cast<unsigned>(plan.scales) + number * 4);
          const int zero = read<std::uint8_t>(stage, static_cast<unsigned>(plan.zeros) + number);
          for (int i = 0; i < 4; ++i) {
            for (int e = 0; e < 2; ++e) {
              const int w = operand(stage, places.w[part] + static_cast<unsigned>(h * 1024),
                                    o.shape.bits, u, i, e, zero);
              for (int t = 0; t < 8 * plan.col_tiles; ++t) {
                const std::uint32_t x = x_of(part, u, t, 8 * i + 2 * (lane % 4) + e);
                sums[static_cast<std::size_t>(slot * 64 + t)] +=
                    double{scale} * w * read<std::int16_t>(stage, x);
              }
            }
          }
        }
      }
    }
  }
}

void walk(const PackedShape& shape, const PackedDevice& device, std::mt19937_64& random) {
  Operands o(shape, random);
  const PackedPlan plan = plan_packed_gemm(shape, device);
  SCOPED_TRACE(fmt::format(
      "{} rows, in {}, out {}, {} bits by {}{}: cluster {}, {} groups, {} x {}", shape.rows,
      shape.in, shape.out, shape.bits, shape.group, shape.halves ? ", halves" : "", plan.cluster,
      plan.groups, plan.row_warps, plan.column_warps));
  ASSERT_GE(plan.stages, 2);
  std::vector<std::vector<float>> w;
  for (int row = 0; row < o.w_rows(); ++row) w.push_back(reference::row_of(o.weight, row));
  const int cluster = static_cast<int>(random() % static_cast<unsigned>(plan.clusters));
  const int begin = plan.share * cluster + std::min(cluster, plan.shares_left);
  const int count = plan.share + (cluster < plan.shares_left ? 1 : 0);
  for (int group = 0; group < plan.groups; ++group) {
    const int first = begin + std::min(count, group * plan.group_rows);
    const int size = begin + std::min(count, (group + 1) * plan.group_rows) - first;
    std::vector<double> sums(static_cast<std::size_t>(plan.slots() * 64));
    for (int chunk = 0; chunk < plan.chunks; ++chunk) {  // of all blocks of the cluster
      const std::vector<std::uint8_t> stage = stage_of(o, plan, first, chunk);
      for (int warp = 0; warp < plan.row_warps * plan.column_warps; ++warp) {
        multiply_part(o, plan, warp, first, stage, sums);
      }
    }
    for (int half = 0; half < (shape.halves ? 2 : 1); ++half) {
      for (int n = 0; n < size; ++n) {
        const auto row = static_cast<std::size_t>(half * shape.out + first + n);
        const int slot = half * plan.slots() / 2 + n;
        for (int t = 0; t < shape.rows; ++t) {
          double want = 0;
          for (int i = 0; i < shape.in; ++i) {
            want += double{w[row][static_cast<std::size_t>(i)]} *
                    o.x[static_cast<std::size_t>(t * shape.in + i)];
          }
          ASSERT_EQ(sums[static_cast<std::size_t>(slot * 64 + t)], want)
              << "row " << t << " column " << row;
        }
      }
    }
  }
}

TEST(PackedWalk, AddsUpTheTwinsNumbers) {
  std::mt19937_64 random(test_seed());
  const PackedDevice few{true, true, 2, 227 * 1024, {1, 0}};
  for (const int bits : {4, 8}) {
    for (const int group : {32, 64, 128}) {
      for (const bool halves : {false, true}) {
        const auto rows = static_cast<int>(random() % 20 + 1);
        walk({rows, 256 * static_cast<int>(random() % 6 + 1),
              16 * static_cast<int>(random() % 5 + 1), bits, group, 4, true, halves, false},
             few, random);
      }
    }
  }
  walk({33, 512, 48, 4, 128, 4, true, false, false}, few, random);
  // Warps of 16 rows, none of which has rows of both halves.
  walk({5, 512, 48, 8, 128, 4, true, true, false}, few, random);
  walk({16, 512, 40, 4, 128, 4, true, true, false}, few, random);
  walk({20, 768, 400, 8, 32, 4, true, false, false}, few, random);
  walk({64, 512, 400, 4, 64, 4, true, true, false}, few, random);
  // Blocks of a cluster, and groups of rows one after another.
  walk({17, 2048, 64, 4, 128, 4, true, false, false}, few, random);
  walk({3, 256, 1040, 8, 64, 4, true, false, false}, few, random);
  walk({2, 512, 448, 4, 32, 4, true, true, false}, few, random);
}

}  // namespace
}  // namespace tandem::cuda
