// AMX tiles: eight registers of 16 rows x 64 bytes, behind an interface shared by the processor's
// tiles and an emulation in memory, so that the loops over them are tested on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"

namespace tandem {

// The format of LDTILECFG (Intel 64 manual, volume 1, chapter 18.2.1).
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64 && offsetof(TileConfig, row_bytes) == 16 &&
              offsetof(TileConfig, rows) == 48);

#if defined(__x86_64__)
// Inline assembly, because GCC's intrinsics take no template argument as a register's number; it
// needs no target attribute either. The compiler never uses tile registers itself.
struct AmxTiles {
  static void configure(const TileConfig& config) { asm volatile("ldtilecfg %0" ::"m"(config)); }
  static void release() { asm volatile("tilerelease"); }
  template <int kTile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  static void load(const void* from, std::size_t stride_bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride_bytes), "i"(kTile)
                 : "memory");
  }
  template <int kTile>
  static void store(void* to, std::size_t stride_bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride_bytes), "i"(kTile)
                 : "memory");
  }
  // C[i][j] += sum over p of X[i][2p] W[p][2j] + X[i][2p + 1] W[p][2j + 1]
  template <int kC, int kX, int kW>
  static void dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kC), "i"(kX), "i"(kW));
  }
};
#endif

struct EmulatedTile {
  std::uint8_t rows = 0;
  std::uint16_t row_bytes = 0;
  alignas(64) std::byte bytes[16][64] = {};
};

// One set per thread, like the CPU's registers, which the instructions address without an object.
struct EmulatedTiles {
  static inline thread_local EmulatedTile tiles[8];

  static void configure(const TileConfig& config) {
    for (int i = 0; i < 8; ++i) tiles[i] = {config.rows[i], config.row_bytes[i], {}};
  }
  static void release() {
    for (EmulatedTile& tile : tiles) tile = {};
  }
  template <int kTile>
  static void zero() {
    std::memset(tiles[kTile].bytes, 0, sizeof tiles[kTile].bytes);
  }
  template <int kTile>
  static void load(const void* from, std::size_t stride_bytes) {
    EmulatedTile& tile = tiles[kTile];
    zero<kTile>();
    for (int i = 0; i < tile.rows; ++i) {
      std::memcpy(tile.bytes[i], static_cast<const std::byte*>(from) + i * stride_bytes,
                  tile.row_bytes);
    }
  }
  template <int kTile>
  static void store(void* to, std::size_t stride_bytes) {
    const EmulatedTile& tile = tiles[kTile];
    for (int i = 0; i < tile.rows; ++i) {
      std::memcpy(static_cast<std::byte*>(to) + i * stride_bytes, tile.bytes[i], tile.row_bytes);
    }
  }
  template <int kC, int kX, int kW>
  static void dot() {
    const auto at = [](const EmulatedTile& tile, int row, int column) {
      bf16 value;
      std::memcpy(&value, tile.bytes[row] + column * 2, sizeof value);
      return to_float(value);
    };
    EmulatedTile& c = tiles[kC];
    for (int i = 0; i < c.rows; ++i) {
      for (int j = 0; j < c.row_bytes / 4; ++j) {
        float sum = 0;
        std::memcpy(&sum, c.bytes[i] + j * 4, sizeof sum);
        for (int p = 0; p < tiles[kX].row_bytes / 4; ++p) {
          sum += at(tiles[kX], i, 2 * p) * at(tiles[kW], p, 2 * j);
          sum += at(tiles[kX], i, 2 * p + 1) * at(tiles[kW], p, 2 * j + 1);
        }
        std::memcpy(c.bytes[i] + j * 4, &sum, sizeof sum);
      }
    }
  }
};

}  // namespace tandem
