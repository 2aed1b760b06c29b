// y = x w^T of bf16 by AMX. A tile of x is 16 rows x 32 elements in memory order. A tile of w is
// packed: 16 outputs x 32 elements become 16 pairs of elements x 16 outputs, the transpose of a 16
// x 16 matrix of pairs. Four tiles of sums, 32 rows x 32 outputs, stay in registers for all of k.
//
// These loops replace oneDNN's because a worker's products are small and its weights cold. One
// layer's q, k, v of rank 64, cold, on 12 cores of an H200's host take 66 / 124 / 208 us for 16 /
// 64 / 128 rows with these loops, 155 / 312 / 551 with oneDNN 2.6 in bf16, all else equal.
#include "cpu_lora/worker/amx_product.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/memory/aligned_bytes.h"
#include "cpu_lora/worker/amx_tiles.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
// GCC 12 warns about undefined operands in its own intrinsics (its bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

namespace tandem {
namespace {

constexpr std::int64_t kTileRows = 16;
constexpr std::int64_t kTileK = 32;
constexpr std::int64_t kTileBytes = 1024;
// How far ahead of packing weights are fetched: the best on 12 cores at once (of 4 to 32).
constexpr std::int64_t kTilesAhead = 8;
constexpr int kSumStride = 32;  // floats per row of the buffer between tiles and y

constexpr std::int64_t tiles_of(std::int64_t n, std::int64_t size) {
  return (n + size - 1) / size;
}

// All work outside the tiles, in plain loops.
struct PlainVectors {
  // tile[p][j] = the pair w[j][2p], w[j][2p + 1]; zeros beyond `rows` and `k`.
  static void pack_tile(const bf16* w, std::int64_t stride, std::int64_t rows, std::int64_t k,
                        bf16* tile) {
    for (std::int64_t j = 0; j < kTileRows; ++j) {
      for (std::int64_t i = 0; i < kTileK; ++i) {
        const bf16 value = j < rows && i < k ? w[j * stride + i] : bf16{0};
        tile[(i / 2) * 2 * kTileRows + 2 * j + i % 2] = value;
      }
    }
  }
  static void round(const float* sums, std::int64_t count, bf16* y) {
    for (std::int64_t i = 0; i < count; ++i) y[i] = from_float<bf16>(sums[i]);
  }
  static void add_planes(const float* planes, std::int64_t stride, int num_planes,
                         std::int64_t count, bf16* out) {
    for (std::int64_t i = 0; i < count; ++i) {
      float sum = planes[i];
      for (int p = 1; p < num_planes; ++p) sum += planes[p * stride + i];
      out[i] = from_float<bf16>(sum);
    }
  }
};

#if defined(__x86_64__)
#define TANDEM_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]]

struct Avx512Vectors {
  TANDEM_AVX512 static void pack_tile(const bf16* w, std::int64_t stride, std::int64_t rows,
                                      std::int64_t k, bf16* tile) {
    __m512i a[16];
    __m512i b[16];
    const __mmask32 mask = k >= kTileK ? 0xffffffffU : (1U << k) - 1;
    for (int j = 0; j < 16; ++j) {
      a[j] = j < rows ? _mm512_maskz_loadu_epi16(mask, w + j * stride) : _mm512_setzero_si512();
    }
    // Within each 128-bit lane, 4 x 4 pairs of rows 4g .. 4g + 3 are transposed;
    for (int g = 0; g < 16; g += 4) {
      const __m512i low01 = _mm512_unpacklo_epi32(a[g], a[g + 1]);
      const __m512i high01 = _mm512_unpackhi_epi32(a[g], a[g + 1]);
      const __m512i low23 = _mm512_unpacklo_epi32(a[g + 2], a[g + 3]);
      const __m512i high23 = _mm512_unpackhi_epi32(a[g + 2], a[g + 3]);
      b[g] = _mm512_unpacklo_epi64(low01, low23);
      b[g + 1] = _mm512_unpackhi_epi64(low01, low23);
      b[g + 2] = _mm512_unpacklo_epi64(high01, high23);
      b[g + 3] = _mm512_unpackhi_epi64(high01, high23);
    }
    // then lanes: b[4g + i] has in lane l the pair 4l + i of rows 4g .. 4g + 3.
    for (int i = 0; i < 4; ++i) {
      const __m512i even01 = _mm512_shuffle_i32x4(b[i], b[4 + i], 0x88);
      const __m512i odd01 = _mm512_shuffle_i32x4(b[i], b[4 + i], 0xdd);
      const __m512i even23 = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0x88);
      const __m512i odd23 = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0xdd);
      auto* out = reinterpret_cast<std::byte*>(tile) + i * 64;
      _mm512_store_si512(out, _mm512_shuffle_i32x4(even01, even23, 0x88));
      _mm512_store_si512(out + 4 * 64, _mm512_shuffle_i32x4(odd01, odd23, 0x88));
      _mm512_store_si512(out + 8 * 64, _mm512_shuffle_i32x4(even01, even23, 0xdd));
      _mm512_store_si512(out + 12 * 64, _mm512_shuffle_i32x4(odd01, odd23, 0xdd));
    }
  }
  TANDEM_AVX512 static void round(const float* sums, std::int64_t count, bf16* y) {
    std::int64_t i = 0;
    for (; i + 32 <= count; i += 32) {
      const __m512 low = _mm512_loadu_ps(sums + i);
      const __m512 high = _mm512_loadu_ps(sums + i + 16);
      _mm512_storeu_si512(y + i, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
    }
    for (; i < count; i += 16) {
      const auto left = std::min<std::int64_t>(16, count - i);
      const auto mask = static_cast<__mmask16>((1U << left) - 1);
      const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, sums + i));
      _mm256_mask_storeu_epi16(y + i, mask, reinterpret_cast<__m256i>(rounded));
    }
  }
  TANDEM_AVX512 static void add_planes(const float* planes, std::int64_t stride, int num_planes,
                                       std::int64_t count, bf16* out) {
    for (std::int64_t i = 0; i < count; i += 16) {
      const auto left = std::min<std::int64_t>(16, count - i);
      const auto mask = static_cast<__mmask16>((1U << left) - 1);
      __m512 sum = _mm512_maskz_loadu_ps(mask, planes + i);
      for (int p = 1; p < num_planes; ++p) {
        sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, planes + p * stride + i));
      }
      const __m256bh rounded = _mm512_cvtneps_pbh(sum);
      _mm256_mask_storeu_epi16(out + i, mask, reinterpret_cast<__m256i>(rounded));
    }
  }
};

bool has_avx512_bf16() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0) return false;
  // The builtin also checks that the operating system saves the registers.
  return (eax & (1U << 5)) != 0 && __builtin_cpu_supports("avx512f") != 0 &&
         __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}

bool has_amx_bf16() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kBf16 = 1U << 22;
  constexpr unsigned kTile = 1U << 24;
  return (edx & kBf16) != 0 && (edx & kTile) != 0;
}

// Linux enables tile registers for a process on request (Documentation/x86/xstate.rst).
bool ask_for_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

template <typename Tiles, typename Vectors>
class AmxProduct final : public Product {
 public:
  explicit AmxProduct(const char* name) : name_(name) {}

  const char* name() const override { return name_; }
  DType input_dtype() const override { return DType::bf16; }

  std::size_t packed_bytes(std::int64_t n, std::int64_t k) const override {
    return static_cast<std::size_t>(tiles_of(n, kTileRows) * tiles_of(k, kTileK) * kTileBytes);
  }

  void pack(const WeightsView& w, std::int64_t first, std::byte* packed) override {
    const auto* rows = reinterpret_cast<const bf16*>(w.data) + first * w.stride;
    const std::int64_t count = std::min(kTileRows, w.n - first);
    std::byte* tile = packed + packed_bytes(first, w.k);
    Ahead ahead(w, first);
    for (std::int64_t k = 0; k < w.k; k += kTileK, tile += kTileBytes) {
      ahead.fetch();
      Vectors::pack_tile(rows + k, w.stride, count, std::min(kTileK, w.k - k),
                         reinterpret_cast<bf16*>(tile));
    }
  }

  void add_planes(const float* planes, std::int64_t plane_stride, int num_planes, std::int64_t k,
                  void* out) override {
    Vectors::add_planes(planes, plane_stride, num_planes, k, static_cast<bf16*>(out));
  }

  Status run(const ProductArgs& args) override {
    TANDEM_CHECK(args.x_dtype == DType::bf16, "x of {}", to_string(args.x_dtype));
    copy_tail(args);
    TileConfig config;
    std::int64_t configured = -1;
    for (std::int64_t row = 0; row < args.rows; row += 2 * kTileRows) {
      const std::int64_t rows = std::min(2 * kTileRows, args.rows - row);
      if (rows != configured) {
        configure(config, rows);
        configured = rows;
      }
      if (rows > kTileRows) {
        run_rows<2>(args, row, rows);
      } else {
        run_rows<1>(args, row, rows);
      }
    }
    if (args.rows > 0) Tiles::release();
    return {};
  }

 private:
  // Fetches the tile of weights that is packed kTilesAhead tiles later.
  class Ahead {
   public:
    Ahead(const WeightsView& w, std::int64_t first) : w_(w), row_(first) {
      const std::int64_t wide = tiles_of(w.k, kTileK);
      row_ += kTilesAhead / wide * kTileRows;
      k_ = kTilesAhead % wide * kTileK;
    }
    void fetch() {
      const std::int64_t count = std::min(kTileRows, w_.n - row_);
      const std::byte* from = w_.data + (row_ * w_.stride + k_) * 2;
      for (std::int64_t i = 0; i < count; ++i) __builtin_prefetch(from + i * w_.stride * 2, 0, 2);
      k_ += kTileK;
      if (k_ < w_.k) return;
      k_ = 0;
      row_ += kTileRows;
    }

   private:
    const WeightsView& w_;
    std::int64_t row_;
    std::int64_t k_ = 0;
  };

  // Tiles 0 to 3: sums, 2 x 2; 4 and 5: x; 6 and 7: w.
  static void configure(TileConfig& config, std::int64_t rows) {
    const auto upper = static_cast<std::uint8_t>(std::min(rows, kTileRows));
    const auto lower = static_cast<std::uint8_t>(rows - upper);
    const std::uint8_t row_counts[8] = {upper, upper, lower, lower, upper, lower, 16, 16};
    for (int i = 0; i < 8; ++i) {
      config.rows[i] = row_counts[i];
      config.row_bytes[i] = row_counts[i] == 0 ? 0 : 64;
    }
    Tiles::configure(config);
  }

  // Copies the last elements of k, padded with zeros: memory beyond them may hold NaN or infinity.
  void copy_tail(const ProductArgs& args) {
    const std::int64_t tail = args.k % kTileK;
    if (tail == 0) return;
    auto* copy = tail_.get<bf16>(static_cast<std::size_t>(args.rows * kTileK));
    const auto* x = static_cast<const bf16*>(args.x) + args.k - tail;
    for (std::int64_t r = 0; r < args.rows; ++r) {
      std::memcpy(copy + r * kTileK, x + r * args.x_stride, static_cast<std::size_t>(tail) * 2);
      std::fill(copy + r * kTileK + tail, copy + (r + 1) * kTileK, bf16{0});
    }
  }

  template <int kRowTiles>
  void run_rows(const ProductArgs& args, std::int64_t row, std::int64_t rows) {
    std::int64_t n = 0;
    for (; n + kTileRows < args.n; n += 2 * kTileRows) {
      block<kRowTiles, 2>(args, row, n);
      store(args, row, rows, n, std::min(2 * kTileRows, args.n - n));
    }
    if (n < args.n) {
      block<kRowTiles, 1>(args, row, n);
      store(args, row, rows, n, args.n - n);
    }
  }

  // Computes sums of kRowTiles x kOutTiles tiles over all of k, into the buffer.
  template <int kRowTiles, int kOutTiles>
  void block(const ProductArgs& args, std::int64_t row, std::int64_t n) {
    Tiles::template zero<0>();
    if constexpr (kOutTiles == 2) Tiles::template zero<1>();
    if constexpr (kRowTiles == 2) Tiles::template zero<2>();
    if constexpr (kRowTiles == 2 && kOutTiles == 2) Tiles::template zero<3>();
    const std::int64_t whole = args.k / kTileK;
    const auto stride = static_cast<std::size_t>(args.x_stride) * 2;
    const std::byte* x = static_cast<const std::byte*>(args.x) + row * args.x_stride * 2;
    const std::byte* w = args.packed + packed_bytes(n, args.k);
    const auto next = static_cast<std::int64_t>(packed_bytes(kTileRows, args.k));
    for (std::int64_t i = 0; i < whole; ++i) {
      step<kRowTiles, kOutTiles>(x + i * 64, stride, w + i * kTileBytes, next);
    }
    if (args.k % kTileK != 0) {
      const auto* tail = tail_.template get<std::byte>(0) + row * kTileK * 2;
      step<kRowTiles, kOutTiles>(tail, kTileK * 2, w + whole * kTileBytes, next);
    }
    float* sums = sums_[which_].data();
    constexpr std::size_t kStride = kSumStride * sizeof(float);
    Tiles::template store<0>(sums, kStride);
    if constexpr (kOutTiles == 2) Tiles::template store<1>(sums + 16, kStride);
    if constexpr (kRowTiles == 2) Tiles::template store<2>(sums + 16 * kSumStride, kStride);
    if constexpr (kRowTiles == 2 && kOutTiles == 2) {
      Tiles::template store<3>(sums + 16 * kSumStride + 16, kStride);
    }
  }

  template <int kRowTiles, int kOutTiles>
  static void step(const std::byte* x, std::size_t stride, const std::byte* w, std::int64_t next) {
    Tiles::template load<6>(w, 64);
    if constexpr (kOutTiles == 2) Tiles::template load<7>(w + next, 64);
    Tiles::template load<4>(x, stride);
    Tiles::template dot<0, 4, 6>();
    if constexpr (kOutTiles == 2) Tiles::template dot<1, 4, 7>();
    if constexpr (kRowTiles == 2) {
      Tiles::template load<5>(x + 16 * stride, stride);
      Tiles::template dot<2, 5, 6>();
      if constexpr (kOutTiles == 2) Tiles::template dot<3, 5, 7>();
    }
  }

  void store(const ProductArgs& args, std::int64_t row, std::int64_t rows, std::int64_t n,
             std::int64_t count) {
    const float* sums = sums_[which_].data();
    for (std::int64_t r = 0; r < rows; ++r, sums += kSumStride) {
      const std::int64_t at = (row + r) * args.y_stride + n;
      if (args.y_dtype == DType::bf16) {
        Vectors::round(sums, count, static_cast<bf16*>(args.y) + at);
      } else {
        std::memcpy(static_cast<float*>(args.y) + at, sums,
                    static_cast<std::size_t>(count) * sizeof(float));
      }
    }
    // There are two buffers, so that the tiles of the next block need not wait for these loads.
    which_ ^= 1;
  }

  const char* name_;
  AlignedBytes tail_;
  alignas(64) std::array<std::array<float, 32 * kSumStride>, 2> sums_;
  int which_ = 0;
};

template <typename Tiles>
std::unique_ptr<Product> with_vectors(const char* name) {
#if defined(__x86_64__)
  if (has_avx512_bf16()) return std::make_unique<AmxProduct<Tiles, Avx512Vectors>>(name);
#endif
  return std::make_unique<AmxProduct<Tiles, PlainVectors>>(name);
}

}  // namespace

bool has_amx() {
#if defined(__x86_64__)
  static const bool has = has_amx_bf16() && has_avx512_bf16() && ask_for_tiles();
  return has;
#else
  return false;
#endif
}

std::unique_ptr<Product> make_amx_product() {
#if defined(__x86_64__)
  if (has_amx()) return with_vectors<AmxTiles>("bf16 on AMX tiles");
#endif
  return nullptr;
}

std::unique_ptr<Product> make_emulated_amx_product(bool plain) {
  if (plain) return std::make_unique<AmxProduct<EmulatedTiles, PlainVectors>>("emulated AMX");
  return with_vectors<EmulatedTiles>("emulated AMX");
}

}  // namespace tandem
