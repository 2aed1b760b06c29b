// The numbers of packed weights' groups, as floats. Highway compiles this header once per
// instruction set.
#if defined(TANDEM_GPU_HOST_PACKED_NUMBERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_GPU_HOST_PACKED_NUMBERS_INL_H_
#undef TANDEM_GPU_HOST_PACKED_NUMBERS_INL_H_
#else
#define TANDEM_GPU_HOST_PACKED_NUMBERS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gpu/host/kernels/simd-inl.h"
#include "gpu/weight.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::host::HWY_NAMESPACE {

inline constexpr std::int64_t kLanes = hn::MaxLanes(F32());

// Loads a vector of p[k] on, of n elements; its lanes behind them have any contents.
template <typename D, typename T>
HWY_INLINE hn::Vec<D> load_within(D d, const T* p, std::int64_t k, std::int64_t n) {
  if (k + kLanes <= n) return hn::LoadU(d, p + k);
  T lanes[kLanes] = {};
  std::memcpy(lanes, p + k, static_cast<std::size_t>(n - k) * sizeof(T));
  return hn::LoadU(d, lanes);
}

// The number that a code of less than 8 bits, or of FP8, stands for.
inline float code_value(const WeightForm& form, unsigned code) {
  if (form.format == WeightFormat::codebook) return form.codebook[code];
  if (form.format == WeightFormat::affine) {
    return static_cast<float>(static_cast<int>(code) - (form.bits == 8 ? 0 : form.zero));
  }
  // e4m3, whose exponents are biased by 7, in float by 127. Denormal ones are multiples of 2^-9.
  const float size = (code & 0x78U) == 0
                         ? static_cast<float>(code & 7U) * 0x1p-9F
                         : std::bit_cast<float>(((code & 127U) << 20) + (120U << 23));
  return (code & 128U) == 0 ? size : -size;
}

// The numbers of a range of a row's groups: value = scale code - minus, where WeightForm::zero has
// already been subtracted from codes of less than 8 bits.
class Numbers {
 public:
  static constexpr std::int64_t kMost = 256;  // groups

  explicit Numbers(const Weight& weight)
      : weight_(weight),
        groups_(weight.form.groups(weight.cols())),
        constant_zero_(weight.form.bits == 8 ? static_cast<float>(weight.form.zero) : 0),
        scales_(weight.form.scales, weight.packed.scales, weight.packed.scale_codes),
        offsets_(weight.form.offsets, weight.packed.offsets, weight.packed.offset_codes) {
    std::fill_n(minus, kMost, 0.0F);
    for (unsigned i = 0; i < 16; ++i) low_codes[i] = code_value(weight.form, i);
  }

  // Reads groups [first, first + count) of a row.
  void read(std::int64_t row, std::int64_t first, std::int64_t count) {
    const F32 d;
    const WeightForm& form = weight_.form;
    read_one(scales_, row, first, count, scale);
    if (form.offsets.is_used()) read_one(offsets_, row, first, count, minus);
    if (!form.has_zeros && constant_zero_ == 0) return;
    const VecF constant = hn::Set(d, constant_zero_);
    const hn::Rebind<std::uint8_t, F32> bytes;
    for (std::int64_t k = 0; k < count; k += kLanes) {
      VecF zero = constant;
      if (form.has_zeros) {
        const std::uint8_t* const zeros = weight_.packed.zeros + row * groups_ + first;
        zero = hn::Add(zero, to_floats(load_within(bytes, zeros, k, count)));
      }
      const VecF offset = form.offsets.is_used() ? hn::Load(d, minus + k) : hn::Zero(d);
      hn::Store(hn::MulAdd(hn::Load(d, scale + k), zero, offset), d, minus + k);
    }
  }

  HWY_ALIGN float scale[kMost];
  HWY_ALIGN float minus[kMost];
  HWY_ALIGN float low_codes[16];  // what stands for the lower 4 bits of a code

 private:
  struct Source {
    Source(const ScaleForm& its_form, const std::byte* its_values, const std::uint8_t* its_codes)
        : form(its_form), values(its_values), codes(its_codes) {
      for (std::int64_t i = 0; i < kLanes; ++i) {
        value_of_lane[i] = static_cast<std::int32_t>(i / form.nested);
      }
    }
    const ScaleForm& form;
    const std::byte* values;
    const std::uint8_t* codes;
    std::int32_t value_of_lane[kLanes];
  };

  template <typename V>
  static HWY_INLINE VecF to_floats(V bytes) {
    const hn::Repartition<std::int32_t, F32> wide;
    return hn::ConvertTo(F32(), hn::PromoteTo(wide, bytes));
  }

  // Sets target[k] to the value of group first + k.
  void read_values(const Source& source, std::int64_t row, std::int64_t first, std::int64_t count,
                   float* target) {
    const F32 d;
    const std::int64_t nested = source.form.nested;
    const std::int64_t in_row = (groups_ + nested - 1) / nested;
    const std::int64_t begin = first / nested;
    const std::int64_t values = (first + count + nested - 1) / nested - begin;
    float* const converted = nested == 1 ? target : shared_;
    with_type(source.form.dtype, [&](auto* type) {
      const auto* from = reinterpret_cast<std::add_const_t<std::remove_pointer_t<decltype(type)>>*>(
                             source.values) +
                         row * in_row + begin;
      for_each_vector(d, static_cast<std::size_t>(values), [&](std::size_t lanes, std::size_t i) {
        hwy::Prefetch(from + kRowsAhead * in_row + i);
        hn::Store(load_some(d, from + i, lanes), d, converted + i);
      });
    });
    if (nested == 1) return;
    if (first % nested == 0 && kLanes % nested == 0) {
      const auto indices = hn::SetTableIndices(d, source.value_of_lane);
      const float* values_of_vector = shared_;
      const std::int64_t step = kLanes / nested;
      for (std::int64_t k = 0; k < count; k += kLanes, values_of_vector += step) {
        hn::Store(hn::TableLookupLanes(hn::LoadU(d, values_of_vector), indices), d, target + k);
      }
      return;
    }
    for (std::int64_t i = 0, k = 0; i < values; ++i) {
      const std::int64_t stop = std::min((begin + i + 1) * nested - first, count);
      for (; k < stop; ++k) target[k] = shared_[i];
    }
  }

  void read_one(const Source& source, std::int64_t row, std::int64_t first, std::int64_t count,
                float* target) {
    const F32 d;
    const ScaleForm& form = source.form;
    const std::uint8_t* const codes = source.codes + row * groups_ + first;
    if (form.has_values) {
      read_values(source, row, first, count, target);
    } else {
      std::fill_n(target, count, 1.0F);
    }
    const auto multiply = [&](auto code_at) {
      for (std::int64_t k = 0; k < count; k += kLanes) {
        hwy::Prefetch(codes + kRowsAhead * groups_ + k);
        hn::Store(hn::Mul(hn::Load(d, target + k), code_at(k)), d, target + k);
      }
    };
    const hn::Rebind<std::uint8_t, F32> bytes;
    switch (form.codes) {
      case ScaleForm::Codes::none:
        break;
      case ScaleForm::Codes::u8:
        multiply([&](std::int64_t k) { return to_floats(load_within(bytes, codes, k, count)); });
        break;
      case ScaleForm::Codes::i8: {
        const hn::Rebind<std::int8_t, F32> signed_bytes;
        multiply([&](std::int64_t k) {
          return to_floats(hn::BitCast(signed_bytes, load_within(bytes, codes, k, count)));
        });
        break;
      }
      case ScaleForm::Codes::table: {
        const hn::Repartition<std::int32_t, F32> wide;
        multiply([&](std::int64_t k) {
          const auto indices = hn::PromoteTo(wide, load_within(bytes, codes, k, count));
          return hn::GatherIndex(d, weight_.table, indices);
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

  static constexpr std::int64_t kRowsAhead = 4;  // whose numbers are requested from memory

  const Weight& weight_;
  const std::int64_t groups_;  // of a row
  const float constant_zero_;
  const Source scales_, offsets_;
  HWY_ALIGN float shared_[kMost + 2 * 16];  // values that several groups share
};

}  // namespace tandem::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per target
