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
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gpu/host/kernels/simd-inl.h"
#include "gpu/weight.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::host::HWY_NAMESPACE {

using U32 = hn::Repartition<std::uint32_t, F32>;
using VecU = hn::Vec<U32>;

inline constexpr std::int64_t kLanes = hn::MaxLanes(F32());
inline constexpr std::int64_t kBlock = 2 * kLanes;

// Scales, zeros and offsets of a range of a row's groups.
class Numbers {
 public:
  static constexpr std::int64_t kMost = 256;  // groups

  void read(const Weight& weight, std::int64_t row, std::int64_t first, std::int64_t count) {
    const WeightForm& form = weight.form;
    const std::int64_t groups = form.groups(weight.cols());
    const PackedArrays& arrays = weight.packed;
    read_one(form.scales, arrays.scales, arrays.scale_codes, weight.table, row, groups, first,
             count, scale);
    if (form.offsets.is_used()) {
      read_one(form.offsets, arrays.offsets, arrays.offset_codes, weight.table, row, groups, first,
               count, offset);
    }
    if (form.has_zeros) {
      const F32 d;
      copy_first(arrays.zeros + row * groups + first, count, 1);
      for (std::int64_t k = 0; k < count; k += kLanes) {
        hn::Store(bytes_at<false>(k), d, zero + k);
      }
    }
  }

  HWY_ALIGN float scale[kMost];
  HWY_ALIGN float zero[kMost];  // without WeightForm::zero
  HWY_ALIGN float offset[kMost];

 private:
  // Numbers are copied before they are converted, so that vectors reach beyond the last one.
  void copy_first(const void* source, std::int64_t count, std::size_t size) {
    std::memcpy(copy_, source, static_cast<std::size_t>(count) * size);
  }
  template <bool kSigned>
  VecF bytes_at(std::int64_t k) const {
    const F32 d;
    const hn::Repartition<std::int32_t, F32> wide;
    using Byte = std::conditional_t<kSigned, std::int8_t, std::uint8_t>;
    const hn::Rebind<Byte, F32> narrow;
    return hn::ConvertTo(
        d, hn::PromoteTo(wide, hn::LoadU(narrow, reinterpret_cast<const Byte*>(copy_) + k)));
  }

  void read_values(const ScaleForm& form, const std::byte* values, std::int64_t row,
                   std::int64_t groups, std::int64_t first, std::int64_t count, float* target) {
    const F32 d;
    const std::int64_t in_row = (groups + form.nested - 1) / form.nested;
    const std::int64_t begin = first / form.nested;
    const std::int64_t end = (first + count + form.nested - 1) / form.nested;
    const std::size_t size = size_of(form.dtype);
    copy_first(values + (row * in_row + begin) * static_cast<std::int64_t>(size), end - begin,
               size);
    float* const converted = form.nested == 1 ? target : shared_;
    with_type(form.dtype, [&](auto* type) {
      const auto* source = reinterpret_cast<decltype(type)>(copy_);
      for (std::int64_t k = 0; k < end - begin; k += kLanes) {
        hn::Store(load_f32(d, source + k), d, converted + k);
      }
    });
    if (form.nested == 1) return;
    const std::int64_t nested = form.nested;
    if (first % nested == 0 && nested % kLanes == 0) {
      for (std::int64_t k = 0; k < count; k += kLanes) {
        hn::Store(hn::Set(d, shared_[k / nested]), d, target + k);
      }
    } else if (first % nested == 0 && kLanes % nested == 0) {
      HWY_ALIGN std::int32_t lanes[kLanes];
      for (std::int64_t i = 0; i < kLanes; ++i) lanes[i] = static_cast<std::int32_t>(i / nested);
      const auto indices = hn::SetTableIndices(d, lanes);
      for (std::int64_t k = 0; k < count; k += kLanes) {
        const VecF values_of_lanes = hn::LoadU(d, shared_ + k / nested);
        hn::Store(hn::TableLookupLanes(values_of_lanes, indices), d, target + k);
      }
    } else {
      for (std::int64_t k = 0; k < count; ++k) target[k] = shared_[(first + k) / nested - begin];
    }
  }

  void read_one(const ScaleForm& form, const std::byte* values, const std::uint8_t* codes,
                const float* table, std::int64_t row, std::int64_t groups, std::int64_t first,
                std::int64_t count, float* target) {
    const F32 d;
    const hn::Repartition<std::int32_t, F32> wide;
    if (form.has_values) {
      read_values(form, values, row, groups, first, count, target);
    } else {
      std::fill_n(target, count, 1.0F);
    }
    if (form.codes != ScaleForm::Codes::none) copy_first(codes + row * groups + first, count, 1);
    const auto multiply = [&](auto code_at) {
      for (std::int64_t k = 0; k < count; k += kLanes) {
        hn::Store(hn::Mul(hn::Load(d, target + k), code_at(k)), d, target + k);
      }
    };
    switch (form.codes) {
      case ScaleForm::Codes::none:
        break;
      case ScaleForm::Codes::u8:
        multiply([&](std::int64_t k) { return bytes_at<false>(k); });
        break;
      case ScaleForm::Codes::i8:
        multiply([&](std::int64_t k) { return bytes_at<true>(k); });
        break;
      case ScaleForm::Codes::table: {
        const hn::Rebind<std::uint8_t, F32> narrow;
        multiply([&](std::int64_t k) {
          const auto index = hn::PromoteTo(wide, hn::LoadU(narrow, copy_ + k));
          return hn::GatherIndex(d, table, index);
        });
        break;
      }
    }
    if (form.factor == 1 && form.added == 0) return;
    const VecF factor = hn::Set(d, form.factor);
    const VecF added = hn::Set(d, form.added);
    for (std::int64_t k = 0; k < count; k += kLanes) {
      hn::Store(hn::Mul(factor, hn::Add(hn::Load(d, target + k), added)), d, target + k);
    }
  }

  HWY_ALIGN std::uint8_t copy_[(kMost + 16) * sizeof(float)];
  HWY_ALIGN float shared_[kMost + 16];
};

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

// One number by plain arithmetic: at the ends of rows, and in groups of uncommon sizes.
inline float code_value(const WeightForm& form, unsigned code) {
  if (form.format == WeightFormat::codebook) return form.codebook[code];
  if (form.format == WeightFormat::affine) return static_cast<float>(static_cast<int>(code));
  const unsigned exponent = code >> 3 & 15U;
  const float size = exponent == 0 ? static_cast<float>(code & 7U) * 0x1p-9F
                                   : std::bit_cast<float>(((code & 127U) << 20) + (120U << 23));
  return (code & 128U) == 0 ? size : -size;
}

// A row's codes, and the numbers of a range of its groups, which each decoder turns into values.
struct PackedRow {
  PackedRow(const Weight& weight, std::int64_t row, const Numbers& its_numbers,
            std::int64_t first_place)
      : form(weight.form),
        low(weight.packed.low + row * form.low_bytes(weight.cols())),
        high(weight.packed.high + row * form.high_bytes(weight.cols())),
        numbers(its_numbers),
        begin(first_place) {}

  // The value at a place of the range.
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
    float result = code_value(form, code);
    if (form.format == WeightFormat::affine) {
      result -= static_cast<float>(form.zero) + (form.has_zeros ? numbers.zero[g] : 0);
    }
    result *= numbers.scale[g];
    return form.offsets.is_used() ? result - numbers.offset[g] : result;
  }

  const WeightForm& form;
  const std::uint8_t* low;
  const std::uint8_t* high;
  const Numbers& numbers;
  std::int64_t begin;  // of the range
};

// The decoders. enter(g) precedes the blocks of a span: of the range's group g, or of groups g and
// g + 1 if each is half a block. block(i, a, b) then sets a and b to the halves of the block at
// place i, a multiple of kBlock.

// 4 bits in groups of whole blocks: the group's 16 values are one table.
class TableDecoder {
 public:
  static constexpr bool kByParity = true;  // a block's halves are its even and its odd places
  explicit TableDecoder(const PackedRow& row) : row_(row) {
    HWY_ALIGN float values[16];
    for (unsigned i = 0; i < 16; ++i) {
      values[i] = code_value(row.form, i) - static_cast<float>(row.form.zero);
    }
    codes_ = Table(values);
  }
  HWY_INLINE void enter(std::int64_t g) {
    const F32 d;
    const VecF scale = hn::Set(d, row_.numbers.scale[g]);
    table_ = codes_;
    if (row_.form.has_zeros) {
      const VecF zero = hn::Set(d, row_.numbers.zero[g]);
      table_ = table_.map([&](VecF v) { return hn::Sub(v, zero); });
    }
    table_ = table_.map([&](VecF v) { return hn::Mul(v, scale); });
    if (row_.form.offsets.is_used()) {
      const VecF offset = hn::Set(d, row_.numbers.offset[g]);
      table_ = table_.map([&](VecF v) { return hn::Sub(v, offset); });
    }
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

// What the other decoders subtract and multiply by.
template <bool kByParity>
class Scaling {
 public:
  HWY_INLINE void enter(const PackedRow& row, std::int64_t g, float constant_zero) {
    const bool halves = row.form.group == kLanes;
    set(row.numbers.scale, g, halves, scale_);
    const F32 d;
    offset_[0] = offset_[1] = hn::Zero(d);
    has_offsets_ = row.form.offsets.is_used();
    if (has_offsets_) set(row.numbers.offset, g, halves, offset_);
    const VecF constant = hn::Set(d, constant_zero);
    zero_[0] = zero_[1] = constant;
    if (!row.form.has_zeros) return;
    set(row.numbers.zero, g, halves, zero_);
    for (VecF& zero : zero_) zero = hn::Add(zero, constant);
  }
  template <int kHalf>
  HWY_INLINE VecF apply(VecF v) const {
    const VecF scaled = hn::Mul(hn::Sub(v, zero_[kHalf]), scale_[kHalf]);
    return has_offsets_ ? hn::Sub(scaled, offset_[kHalf]) : scaled;
  }

 private:
  static HWY_INLINE void set(const float* numbers, std::int64_t g, bool halves, VecF (&target)[2]) {
    const F32 d;
    target[0] = target[1] = hn::Set(d, numbers[g]);
    if (!halves) return;
    const VecF second = hn::Set(d, numbers[g + 1]);
    if (kByParity) {
      target[0] = target[1] = hn::IfThenElse(hn::FirstN(d, kLanes / 2), target[0], second);
    } else {
      target[1] = second;
    }
  }

  VecF scale_[2], zero_[2], offset_[2];
  bool has_offsets_ = false;
};

// 4 bits and kAbove further ones.
template <int kAbove>
class PlanesDecoder {
 public:
  static constexpr bool kByParity = true;
  explicit PlanesDecoder(const PackedRow& row) : row_(row) {
    HWY_ALIGN float low[16];
    HWY_ALIGN float high[16];
    for (unsigned i = 0; i < 16; ++i) {
      low[i] = code_value(row.form, i);
      // Repeated, so that bits of further codes in an index do not matter.
      high[i] = static_cast<float>(static_cast<int>((i & ((1U << kAbove) - 1)) << 4));
    }
    low_ = Table(low);
    high_ = Table(high);
    HWY_ALIGN std::uint32_t shifts[kLanes];
    for (std::int64_t i = 0; i < kLanes; ++i) {
      shifts[i] = static_cast<std::uint32_t>(2 * kAbove * i % 32);
    }
    shifts_ = hn::Load(U32(), shifts);
  }
  HWY_INLINE void enter(std::int64_t g) {
    scaling_.enter(row_, g, static_cast<float>(row_.form.zero));
  }
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
  static constexpr bool kByParity = false;
  explicit BytesDecoder(const PackedRow& row) : row_(row) {}
  HWY_INLINE void enter(std::int64_t g) {
    scaling_.enter(row_, g, kFp8 ? 0 : static_cast<float>(row_.form.zero));
  }
  HWY_INLINE void block(std::int64_t i, VecF& a, VecF& b) const {
    a = scaling_.template apply<0>(value(row_.low + i));
    b = scaling_.template apply<1>(value(row_.low + i + kLanes));
  }

 private:
  HWY_INLINE static VecF value(const std::uint8_t* codes) {
    const F32 d;
    const hn::Rebind<std::uint8_t, F32> narrow;
    const hn::Repartition<std::int32_t, F32> integers;
    const VecU code = hn::PromoteTo(U32(), hn::LoadU(narrow, codes));
    if constexpr (!kFp8) return hn::ConvertTo(d, hn::BitCast(integers, code));
    const VecU sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(U32(), 128)));
    const VecU size = hn::And(code, hn::Set(U32(), 127));
    // Exponents are biased by 7, in float by 127. Denormal numbers are multiples of 2^-9.
    const VecF normal =
        hn::BitCast(d, hn::Add(hn::ShiftLeft<20>(size), hn::Set(U32(), 120U << 23)));
    const VecF denormal =
        hn::Mul(hn::ConvertTo(d, hn::BitCast(integers, size)), hn::Set(d, 0x1p-9F));
    const auto is_denormal =
        hn::RebindMask(d, hn::Lt(hn::BitCast(integers, size), hn::Set(integers, 8)));
    return hn::BitCast(
        d, hn::Or(hn::BitCast(U32(), hn::IfThenElse(is_denormal, denormal, normal)), sign));
  }

  PackedRow row_;
  Scaling<false> scaling_;
};

// Groups of uncommon sizes, which may end within a block.
class SingleDecoder {
 public:
  static constexpr bool kByParity = false;
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

// Decodes rows [row, row + kRows) side by side: block(i, decoders) for each of their blocks, and
// rest(i, n, rows) for the n places behind the last block, if there are any.
template <typename Decoder, int kRows, typename Block, typename Rest>
HWY_INLINE void decode_rows(const Weight& weight, std::int64_t row, Numbers* numbers, Block block,
                            Rest rest) {
  const std::int64_t cols = weight.cols();
  const std::int64_t group = std::min<std::int64_t>(weight.form.group, cols);
  const std::int64_t groups = weight.form.groups(cols);
  constexpr bool kSingle = std::is_same_v<Decoder, SingleDecoder>;
  const std::int64_t span = kSingle ? Numbers::kMost * group : std::max(group, kBlock);
  for (std::int64_t first = 0; first < groups; first += Numbers::kMost) {
    const std::int64_t count = std::min(Numbers::kMost, groups - first);
    const std::int64_t begin = first * group;
    const std::int64_t end = std::min(cols, begin + count * group);
    for (int r = 0; r < kRows; ++r) numbers[r].read(weight, row + r, first, count);
    const auto decode = [&](const auto&... rows) HWY_ATTR {
      Decoder decoders[] = {Decoder(rows)...};
      std::int64_t g = 0;
      for (std::int64_t at = begin; at < end; at += span, g += span / group) {
        const std::int64_t stop = std::min(end, at + span);
        if (at + kBlock > stop) break;
        for (Decoder& decoder : decoders) decoder.enter(g);
        for (std::int64_t i = at; i + kBlock <= stop; i += kBlock) block(i, decoders);
      }
      const std::int64_t left = (end - begin) % kBlock;
      const PackedRow* const all[] = {&rows...};
      if (left > 0) rest(end - left, left, all);
    };
    const PackedRow one(weight, row, numbers[0], begin);
    if constexpr (kRows == 1) {
      decode(one);
    } else {
      decode(one, PackedRow(weight, row + 1, numbers[1], begin));
    }
  }
}

}  // namespace tandem::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per target
