// Packed weights decoded in registers, and there stored or multiplied by.
//
// dot_packed's bound is memory for 8 bits, and for 4 bits and one row of x about memory and
// arithmetic alike: 16 codes take half a load, half a shift, a lookup in the group's table and a
// product, on a Sapphire Rapids 2 cycles, in which memory brings their 8 bytes. Codes of 5 and 6
// bits take two lookups and a sum (4 to 6 cycles), FP8 passes through f16 (4). Dense bf16 takes 8.
//
// Rows began with a wait, and 4 bits took 5.5 cycles, before the codes of the next rows were
// requested. Sums in arrays with indices that are no constants stayed in memory. Eight rows
// of x took a third longer when all their places streamed from the L2 cache. Lookups of bf16 and
// its products of pairs were not tried: this CPU starts a quarter as many of these as float's FMA.
#include "gpu/host/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/host/kernels/packed.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "gpu/host/kernels/packed-inl.h"
#include "gpu/host/kernels/packed.h"
#include "gpu/host/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::host::HWY_NAMESPACE {
namespace {

template <typename Pointer>
using Pointed = std::remove_pointer_t<Pointer>;

static_assert(kPackedPad % kBlock == 0);

template <typename Decoder, typename T>
void unpack_typed(const Weight& weight, std::int64_t row, Numbers& numbers, T* target) {
  const F32 d;
  decode_rows<Decoder, 1>(
      weight, row, 0, weight.cols(), &numbers,
      [&](std::int64_t i, const Decoder(&decoders)[1]) TANDEM_INLINE {
        VecF a;
        VecF b;
        decoders[0].block(i, a, b);
        if constexpr (Decoder::kBits == 4 && std::is_same_v<T, float>) {
          hn::StoreInterleaved2(a, b, d, target + i);
          return;
        } else if constexpr (Decoder::kBits == 4) {
          HWY_ALIGN float values[kBlock];
          hn::StoreInterleaved2(a, b, d, values);
          a = hn::Load(d, values);
          b = hn::Load(d, values + kLanes);
        }
        store_f32(d, a, target + i);
        store_f32(d, b, target + i + kLanes);
      },
      [&](std::int64_t i, std::int64_t n, const PackedRow* const(&rows)[1]) TANDEM_INLINE {
        for (std::int64_t k = i; k < i + n; ++k) target[k] = from_float<T>(rows[0]->value(k));
      });
}

void unpack_rows_simd(const Weight& weight, std::int64_t first, std::int64_t count, DType dtype,
                      void* target, std::int64_t stride) {
  Numbers numbers(weight);
  with_type(dtype, [&](auto* type) {
    auto* const rows = static_cast<decltype(type)>(target);
    with_decoder(weight, [&](auto* decoder) {
      for (std::int64_t r = 0; r < count; ++r) {
        unpack_typed<Pointed<decltype(decoder)>>(weight, first + r, numbers, rows + r * stride);
      }
    });
  });
}

void arrange_row_simd(const Weight& weight, float* x) {
  const F32 d;
  with_decoder(weight, [&](auto* decoder) {
    if (Pointed<decltype(decoder)>::kBits != 4) return;
    for (std::int64_t i = 0; i + kBlock <= weight.cols(); i += kBlock) {
      VecF even;
      VecF odd;
      hn::LoadInterleaved2(d, x + i, even, odd);
      hn::StoreU(even, d, x + i);
      hn::StoreU(odd, d, x + i + kLanes);
    }
  });
}

// Adds to acc (from place 0 on: sets it to) the products over places [begin, end) of kRows rows of
// x and outputs output to output + kOutputs - 1.
template <typename Decoder, int kRows, int kOutputs>
void dot_outputs(const DotPacked& p, std::int64_t output, std::int64_t begin, std::int64_t end,
                 Numbers* numbers) {
  // Sums of few rows would wait for one another.
  constexpr int kSums = kRows * kOutputs < 8 ? 2 : 1;
  const F32 d;
  const float* HWY_RESTRICT const x = p.x;
  const std::int64_t x_stride = p.x_stride;
  VecF sums[kOutputs][kRows][kSums];
  const auto for_each_sum = [&](auto body) TANDEM_INLINE {
    unroll<kRows>([&](auto r) TANDEM_INLINE {
      unroll<kOutputs>([&](auto o) TANDEM_INLINE { body(r, o, sums[o][r]); });
    });
  };
  for_each_sum([&](auto, auto, VecF(&sum)[kSums]) TANDEM_INLINE {
    sum[0] = hn::Zero(d);
    if constexpr (kSums == 2) sum[1] = hn::Zero(d);
  });
  const auto add = [&](std::int64_t i, const VecF(&a)[kOutputs],
                       const VecF(&b)[kOutputs]) TANDEM_INLINE {
    for_each_sum([&](auto r, auto o, VecF(&sum)[kSums]) TANDEM_INLINE {
      const float* const row = x + r * x_stride + i;
      sum[0] = hn::MulAdd(hn::LoadU(d, row), a[o], sum[0]);
      sum[kSums - 1] = hn::MulAdd(hn::LoadU(d, row + kLanes), b[o], sum[kSums - 1]);
    });
  };
  decode_rows<Decoder, kOutputs>(
      p.weight, p.first + output, begin, end, numbers,
      [&](std::int64_t i, const Decoder(&decoders)[kOutputs]) TANDEM_INLINE {
        VecF a[kOutputs];
        VecF b[kOutputs];
        unroll<kOutputs>([&](auto o) TANDEM_INLINE { decoders[o].block(i, a[o], b[o]); });
        add(i, a, b);
      },
      [&](std::int64_t i, std::int64_t n, const PackedRow* const(&rows)[kOutputs]) TANDEM_INLINE {
        VecF a[kOutputs];
        VecF b[kOutputs];
        unroll<kOutputs>([&](auto o) TANDEM_INLINE {
          HWY_ALIGN float values[kBlock] = {};
          for (std::int64_t k = 0; k < n; ++k) values[k] = rows[o]->value(i + k);
          a[o] = hn::Load(d, values);
          b[o] = hn::Load(d, values + kLanes);
        });
        add(i, a, b);
      });
  for_each_sum([&](auto r, auto o, VecF(&sum)[kSums]) TANDEM_INLINE {
    if (r >= p.rows) return;
    const float total = sum_of(d, kSums == 2 ? hn::Add(sum[0], sum[kSums - 1]) : sum[0]);
    float& target = p.acc[r * p.acc_stride + output + o];
    target = begin == 0 ? total : target + total;
  });
}

template <typename Decoder, int kRows>
void dot_rows(const DotPacked& p) {
  constexpr int kOutputs = kLanes == 16 || kRows <= 2 ? 2 : 1;  // as registers suffice for sums
  // As many places of kRows rows of x stay in the L1 cache, while those of all outputs stream past.
  constexpr std::int64_t kPlaces = 8192 / kRows;
  const std::int64_t cols = p.weight.cols();
  const std::int64_t group = p.weight.form.group;
  const std::int64_t chunk =
      group >= cols || kPlaces % group == 0 ? kPlaces : std::max<std::int64_t>(cols, 1);
  Numbers numbers[2] = {Numbers(p.weight), Numbers(p.weight)};
  std::int64_t begin = 0;
  do {  // also runs once for no columns: empty sums are zero
    const std::int64_t end = std::min(cols, begin + chunk);
    std::int64_t o = 0;
    for (; o + kOutputs <= p.outputs; o += kOutputs) {
      dot_outputs<Decoder, kRows, kOutputs>(p, o, begin, end, numbers);
    }
    for (; o < p.outputs; ++o) dot_outputs<Decoder, kRows, 1>(p, o, begin, end, numbers);
    begin = end;
  } while (begin < cols);
}

void dot_packed_simd(const DotPacked& p) {
  with_decoder(p.weight, [&](auto* decoder) {
    using Decoder = Pointed<decltype(decoder)>;
    switch (rows_for_packed(p.rows)) {
      case 1:
        return dot_rows<Decoder, 1>(p);
      case 2:
        return dot_rows<Decoder, 2>(p);
      case 4:
        return dot_rows<Decoder, 4>(p);
      default:
        return dot_rows<Decoder, kMaxPackedRows>(p);
    }
  });
}

}  // namespace
}  // namespace tandem::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "gpu/host/kernels/noted_rows.h"

namespace tandem::host {
namespace {

// Reports the arrays of rows [first, first + count).
void note_packed(const Weight& weight, std::int64_t first, std::int64_t count) {
  const WeightForm& form = weight.form;
  const PackedArrays& arrays = weight.packed;
  const std::int64_t groups = form.groups(weight.cols());
  const auto note = [&](const void* array, std::int64_t row_bytes) {
    if (array == nullptr) return;
    note_read_row(static_cast<const std::byte*>(array) + first * row_bytes, count * row_bytes, 1,
                  kOfWholeRows);
  };
  note(arrays.low, form.low_bytes(weight.cols()));
  note(arrays.high, form.high_bytes(weight.cols()));
  note(arrays.scales, form.scales.value_bytes(groups));
  note(arrays.scale_codes, form.scales.code_bytes(groups));
  note(arrays.offsets, form.offsets.value_bytes(groups));
  note(arrays.offset_codes, form.offsets.code_bytes(groups));
  note(arrays.zeros, form.has_zeros ? groups : 0);
}

}  // namespace

HWY_EXPORT(unpack_rows_simd);
HWY_EXPORT(arrange_row_simd);
HWY_EXPORT(dot_packed_simd);

void unpack_rows(const Weight& weight, std::int64_t first, std::int64_t count, DType dtype,
                 void* target, std::int64_t stride) {
  note_packed(weight, first, count);
  note_write_rows(target, count, size_of(dtype), stride, weight.cols());
  HWY_DYNAMIC_DISPATCH(unpack_rows_simd)(weight, first, count, dtype, target, stride);
}
void arrange_row(const Weight& weight, float* x) {
  note_write_row(x, weight.cols(), sizeof(float));
  HWY_DYNAMIC_DISPATCH(arrange_row_simd)(weight, x);
}
void dot_packed(const DotPacked& product) {
  note_packed(product.weight, product.first, product.outputs);
  note_read_rows(product.x, rows_for_packed(product.rows), sizeof(float), product.x_stride,
                 padded_for_packed(product.weight.cols()));
  note_write_rows(product.acc, product.rows, sizeof(float), product.acc_stride, product.outputs);
  HWY_DYNAMIC_DISPATCH(dot_packed_simd)(product);
}

}  // namespace tandem::host
#endif
