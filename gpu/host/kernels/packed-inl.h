// Packed weights as float vectors. A block is two vectors' worth of places of a row. From codes of
// 8 bits come its first half and its second one. From codes of 4 to 6 bits come its even places and
// its odd ones, because two codes share a byte. Highway compiles this header once per instruction
// set.
#if defined(TANDEM_GPU_HOST_PACKED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_GPU_HOST_PACKED_INL_H_
#undef TANDEM_GPU_HOST_PACKED_INL_H_
#else
#define TANDEM_GPU_HOST_PACKED_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "gpu/host/kernels/packed_numbers-inl.h"
#include "gpu/host/kernels/simd-inl.h"
#include "gpu/weight.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::host::HWY_NAMESPACE {

using U32 = hn::Repartition<std::uint32_t, F32>;
using VecU = hn::Vec<U32>;

inline constexpr std::int64_t kBlock = 2 * kLanes;

#ifndef TANDEM_INLINE
#define TANDEM_INLINE __attribute__((always_inline))
#endif

// f(0), ..., f(kCount - 1), of constants, so that GCC keeps arrays of vectors in registers.
template <int kCount, typename F>
HWY_INLINE void unroll(F f) {
  const auto call = [&]<int... i>(std::integer_sequence<int, i...>) TANDEM_INLINE {
    (f(std::integral_constant<int, i>()), ...);
  };
  call(std::make_integer_sequence<int, kCount>());
}

// 16 floats, looked up by the lower 4 bits of an index.
class Table {
 public:
  Table() = default;
  explicit Table(const float* values) {  // [16], aligned
    for (std::int64_t i = 0; i < kParts; ++i) parts_[i] = hn::Load(F32(), values + i * kLanes);
  }
  // The table of f(x) for each x of this one.
  template <typename F>
  HWY_INLINE Table map(F f) const {
    Table result;
    for (std::int64_t i = 0; i < kParts; ++i) result.parts_[i] = f(parts_[i]);
    return result;
  }
  HWY_INLINE VecF at(VecU indices) const {
#if HWY_TARGET == HWY_AVX3
    return VecF{_mm512_permutexvar_ps(indices.raw, parts_[0].raw)};
#elif HWY_TARGET == HWY_AVX2
    const __m256 low = _mm256_permutevar8x32_ps(parts_[0].raw, indices.raw);
    const __m256 high = _mm256_permutevar8x32_ps(parts_[1].raw, indices.raw);
    const __m256 is_high = _mm256_castsi256_ps(_mm256_slli_epi32(indices.raw, 28));
    return VecF{_mm256_blendv_ps(low, high, is_high)};
#else
    HWY_ALIGN float values[16];
    for (std::int64_t i = 0; i < kParts; ++i) hn::Store(parts_[i], F32(), values + i * kLanes);
    const hn::Repartition<std::int32_t, F32> d;
    return hn::GatherIndex(F32(), values, hn::BitCast(d, hn::And(indices, hn::Set(U32(), 15))));
#endif
  }

 private:
  static constexpr std::int64_t kParts = 16 / kLanes;
  VecF parts_[kParts];
};

// A row's codes, and the numbers of a range of its groups, which each decoder turns into values.
struct PackedRow {
  PackedRow(const Weight& weight, std::int64_t row, const Numbers& its_numbers,
            std::int64_t first_place)
      : form(weight.form),
        low(weight.packed.low + row * form.low_bytes(weight.cols())),
        high(weight.packed.high + row * form.high_bytes(weight.cols())),
        numbers(its_numbers),
        begin(first_place) {}

  // The value at a place of the range, by plain arithmetic: at the ends of rows, and in groups of
  // uncommon sizes.
  float value(std::int64_t i) const {
    const std::int64_t g = (i - begin) / form.group;
    unsigned code = 0;
    if (form.bits == 8) {
      code = low[i];
    } else {
      code = low[i / 2] >> (i % 2 * 4) & 15U;
      if (const int above = form.bits - 4; above > 0) {
        const std::int64_t bit = i * above;
        code |= (high[bit / 8] >> (bit % 8) & ((1U << above) - 1)) << 4;
      }
    }
    return numbers.scale[g] * code_value(form, code) - numbers.minus[g];
  }

  const WeightForm& form;
  const std::uint8_t* low;
  const std::uint8_t* high;
  const Numbers& numbers;
  std::int64_t begin;  // of the range
};

// The decoders. enter(g) precedes the blocks of a span: of the range's group g, or of groups g and
// g + 1 if each is half a block. block(i, a, b) then sets a and b to the halves of the block at
// place i, a multiple of kBlock: to its even and its odd places if codes have kBits = 4 lower bits,
// otherwise to its first and its last ones.

// 4 bits in groups of whole blocks: the group's 16 values are one table.
class TableDecoder {
 public:
  static constexpr int kBits = 4;
  static constexpr int kAboveBits = 0;
  explicit TableDecoder(const PackedRow& row) : row_(row), codes_(row.numbers.low_codes) {}
  HWY_INLINE void enter(std::int64_t g) {
    const VecF scale = hn::Set(F32(), row_.numbers.scale[g]);
    const VecF minus = hn::Set(F32(), row_.numbers.minus[g]);
    table_ = codes_.map([&](VecF v) { return hn::MulSub(v, scale, minus); });
  }
  HWY_INLINE void block(std::int64_t i, VecF& a, VecF& b) const {
    const hn::Rebind<std::uint8_t, F32> narrow;
    const VecU codes = hn::PromoteTo(U32(), hn::LoadU(narrow, row_.low + i / 2));
    a = table_.at(codes);
    b = table_.at(hn::ShiftRight<4>(codes));
  }

 private:
  PackedRow row_;
  Table codes_, table_;
};

// scale and minus of the halves of a block.
template <bool kByParity>  // the halves are the even and the odd places
class Scaling {
 public:
  HWY_INLINE void enter(const PackedRow& row, std::int64_t g, float factor = 1) {
    const bool halves = row.form.group == kLanes;
    set(row.numbers.scale, g, halves, factor, scale_);
    set(row.numbers.minus, g, halves, 1, minus_);
  }
  template <int kHalf>
  HWY_INLINE VecF apply(VecF v) const {
    return hn::MulSub(v, scale_[kHalf], minus_[kHalf]);
  }

 private:
  static HWY_INLINE void set(const float* numbers, std::int64_t g, bool halves, float factor,
                             VecF (&target)[2]) {
    const F32 d;
    target[0] = target[1] = hn::Set(d, numbers[g] * factor);
    if (!halves) return;
    const VecF second = hn::Set(d, numbers[g + 1] * factor);
    if (kByParity) {
      target[0] = target[1] = hn::IfThenElse(hn::FirstN(d, kLanes / 2), target[0], second);
    } else {
      target[1] = second;
    }
  }

  VecF scale_[2], minus_[2];
};

// 4 bits and kAbove further ones.
template <int kAbove>
class PlanesDecoder {
 public:
  static constexpr int kBits = 4;
  static constexpr int kAboveBits = kAbove;
  explicit PlanesDecoder(const PackedRow& row) : row_(row), low_(row.numbers.low_codes) {
    // Repeated, so that bits of further codes in an index do not matter.
    HWY_ALIGN static constexpr float kHigh[2][16] = {
        {0, 16, 0, 16, 0, 16, 0, 16, 0, 16, 0, 16, 0, 16, 0, 16},
        {0, 16, 32, 48, 0, 16, 32, 48, 0, 16, 32, 48, 0, 16, 32, 48}};
    high_ = Table(kHigh[kAbove / 2]);
    shifts_ = hn::Mul(hn::Iota(U32(), 0), hn::Set(U32(), 2 * kAbove));
    shifts_ = hn::And(shifts_, hn::Set(U32(), 31));
  }
  HWY_INLINE void enter(std::int64_t g) { scaling_.enter(row_, g); }
  HWY_INLINE void block(std::int64_t i, VecF& a, VecF& b) const {
    const hn::Rebind<std::uint8_t, F32> narrow;
    const VecU codes = hn::PromoteTo(U32(), hn::LoadU(narrow, row_.low + i / 2));
    a = low_.at(codes);
    b = low_.at(hn::ShiftRight<4>(codes));
    if constexpr (kAbove > 0) {
      const VecU above = high_codes(i);
      a = hn::Add(a, high_.at(above));
      b = hn::Add(b, high_.at(hn::ShiftRight<kAbove>(above)));
    }
    a = scaling_.template apply<0>(a);
    b = scaling_.template apply<1>(b);
  }

 private:
  // The lowest bits of each lane are the high parts of two places' codes.
  HWY_INLINE VecU high_codes(std::int64_t i) const {
    const U32 d;
    std::uint32_t words[2] = {};
    std::memcpy(words, row_.high + i * kAbove / 8, kBlock * kAbove / 8);
    VecU bits = hn::Set(d, words[0]);
    if constexpr (kBlock * kAbove > 32) {
      bits = hn::IfThenElse(hn::FirstN(d, kLanes / 2), bits, hn::Set(d, words[1]));
    }
    return hn::Shr(bits, shifts_);
  }

  PackedRow row_;
  Table low_, high_;
  VecU shifts_;
  Scaling<true> scaling_;
};

// 8 bits: integers, or FP8.
template <bool kFp8>
class BytesDecoder {
 public:
  static constexpr int kBits = 8;
  static constexpr int kAboveBits = 0;
  explicit BytesDecoder(const PackedRow& row) : row_(row) {}
  HWY_INLINE void enter(std::int64_t g) { scaling_.enter(row_, g, kFp8 ? kFp8Factor : 1); }
  HWY_INLINE void block(std::int64_t i, VecF& a, VecF& b) const {
    a = scaling_.template apply<0>(value(row_.low + i));
    b = scaling_.template apply<1>(value(row_.low + i + kLanes));
  }

 private:
  static constexpr float kFp8Factor = 256;  // by which value() is too small

  HWY_INLINE VecF value(const std::uint8_t* codes) const {
    const F32 d;
    if constexpr (kFp8) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
      HWY_ALIGN float values[kLanes];
      for (std::int64_t i = 0; i < kLanes; ++i) {
        values[i] = code_value(row_.form, codes[i]) / kFp8Factor;
      }
      return hn::Load(d, values);
#else
      // As f16, whose exponents are biased by 15 and not by 7. The copies of the sign that
      // widening adds go to bits 14 and 15, of which bit 14 is cleared.
      const hn::Rebind<std::int8_t, F32> narrow;
      const hn::Rebind<std::int16_t, F32> shorts;
      const hn::Rebind<hwy::float16_t, F32> halves;
      const auto wide =
          hn::PromoteTo(shorts, hn::LoadU(narrow, reinterpret_cast<const std::int8_t*>(codes)));
      const auto bits = hn::AndNot(hn::Set(shorts, std::int16_t{1} << 14), hn::ShiftLeft<7>(wide));
      return hn::PromoteTo(d, hn::BitCast(halves, bits));
#endif
    } else {
      const hn::Rebind<std::uint8_t, F32> narrow;
      const hn::Repartition<std::int32_t, F32> integers;
      return hn::ConvertTo(d, hn::PromoteTo(integers, hn::LoadU(narrow, codes)));
    }
  }

  PackedRow row_;
  Scaling<false> scaling_;
};

// Groups of uncommon sizes, which may end within a block.
class SingleDecoder {
 public:
  static constexpr int kBits = 8;
  static constexpr int kAboveBits = 0;
  explicit SingleDecoder(const PackedRow& row) : row_(row) {}
  void enter(std::int64_t) {}
  void block(std::int64_t i, VecF& a, VecF& b) const {
    HWY_ALIGN float values[kBlock];
    for (std::int64_t k = 0; k < kBlock; ++k) values[k] = row_.value(i + k);
    a = hn::Load(F32(), values);
    b = hn::Load(F32(), values + kLanes);
  }

 private:
  PackedRow row_;
};

// Calls body with a null pointer of the decoder's type that fits a form.
template <typename Body>
HWY_INLINE void with_decoder(const Weight& weight, Body body) {
  const WeightForm& form = weight.form;
  const bool blocks = form.group % kBlock == 0 || form.group >= weight.cols();
  if constexpr (kLanes < 4) return body(static_cast<SingleDecoder*>(nullptr));
  if (!blocks && form.group != kLanes) return body(static_cast<SingleDecoder*>(nullptr));
  if (form.format == WeightFormat::fp8) return body(static_cast<BytesDecoder<true>*>(nullptr));
  switch (form.bits) {
    case 8:
      return body(static_cast<BytesDecoder<false>*>(nullptr));
    case 6:
      return body(static_cast<PlanesDecoder<2>*>(nullptr));
    case 5:
      return body(static_cast<PlanesDecoder<1>*>(nullptr));
    default:
      if (blocks) return body(static_cast<TableDecoder*>(nullptr));
      return body(static_cast<PlanesDecoder<0>*>(nullptr));
  }
}

// Decodes places [begin, end) of rows [row, row + kRows) side by side: block(i, decoders) for each
// of their blocks, and rest(i, n, rows) for the n places behind the last block, if there are any.
// `begin` is the first place of a group and of a block; with one group, of a block.
template <typename Decoder, int kRows, typename Block, typename Rest>
HWY_INLINE void decode_rows(const Weight& weight, std::int64_t row, std::int64_t begin,
                            std::int64_t end, Numbers* numbers, Block block, Rest rest) {
  const std::int64_t group = std::min<std::int64_t>(weight.form.group, weight.cols());
  constexpr bool kSingle = std::is_same_v<Decoder, SingleDecoder>;
  const std::int64_t span = kSingle ? Numbers::kMost * group : std::max(group, kBlock);
  const std::int64_t groups_of_span = group < kBlock ? 2 : 1;
  // The processor does not see from one row to the next, and would wait at the start of each. The
  // next rows' codes are requested while those of these rows are decoded.
  const std::int64_t row_bytes = weight.form.low_bytes(weight.cols());
  const std::int64_t high_bytes = weight.form.high_bytes(weight.cols());
  const std::uint8_t* const next = weight.packed.low + (row + kRows) * row_bytes;
  const std::uint8_t* const next_high = weight.packed.high + (row + kRows) * high_bytes;
  std::int64_t at = begin;
  while (at < end) {
    const std::int64_t first = at / group;
    const std::int64_t stop = std::min(end, (first + Numbers::kMost) * group);
    const std::int64_t count = (stop - first * group + group - 1) / group;
    for (int r = 0; r < kRows; ++r) numbers[r].read(row + r, first, count);
    const auto decode = [&](const auto&... rows) TANDEM_INLINE {
      Decoder decoders[] = {Decoder(rows)...};
      std::int64_t g = 0;
      for (; at + kBlock <= stop; g += groups_of_span) {
        const std::int64_t span_stop = std::min(stop, at + span);
        unroll<kRows>([&](auto r) TANDEM_INLINE { decoders[r].enter(g); });
        for (; at + kBlock <= span_stop; at += kBlock) {
          unroll<kRows>([&](auto r) TANDEM_INLINE {
            hwy::Prefetch(next + r * row_bytes + at * Decoder::kBits / 8);
            if constexpr (Decoder::kAboveBits > 0) {
              hwy::Prefetch(next_high + r * high_bytes + at * Decoder::kAboveBits / 8);
            }
          });
          block(at, decoders);
        }
      }
      const PackedRow* const all[] = {&rows...};
      if (at < stop) rest(at, stop - at, all);
    };
    const PackedRow one(weight, row, numbers[0], first * group);
    if constexpr (kRows == 1) {
      decode(one);
    } else {
      decode(one, PackedRow(weight, row + 1, numbers[1], first * group));
    }
    at = stop;
  }
}

}  // namespace tandem::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per target
