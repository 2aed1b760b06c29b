// The row loops of conversion, norms, rotary embedding, gating and softcaps.
#include "gpu/host/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/host/kernels/rowwise.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <cmath>

#include "gpu/host/kernels/kernels.h"
#include "gpu/host/kernels/simd-inl.h"
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::host::HWY_NAMESPACE {
namespace {

template <typename Pointer>
using Element = std::remove_const_t<std::remove_pointer_t<Pointer>>;

void widen_row_simd(DType dtype, const void* source, std::int64_t n, float scale, float* target) {
  const F32 d;
  const VecF scales = hn::Set(d, scale);
  with_type(dtype, [&](auto* type) {
    const auto* x = static_cast<const Element<decltype(type)>*>(source);
    for_each_vector(d, static_cast<std::size_t>(n), [&](std::size_t lanes, std::size_t i) {
      store_some(d, hn::Mul(load_some(d, x + i, lanes), scales), target + i, lanes);
    });
  });
  for (std::int64_t i = n; i < padded(n); ++i) target[i] = 0;
}

void scale_typed_row_simd(DType dtype, void* row, std::int64_t n, float factor) {
  const F32 d;
  const VecF factors = hn::Set(d, factor);
  with_type(dtype, [&](auto* type) {
    auto* x = static_cast<Element<decltype(type)>*>(row);
    for_each_vector(d, static_cast<std::size_t>(n), [&](std::size_t lanes, std::size_t i) {
      store_some(d, hn::Mul(load_some(d, x + i, lanes), factors), x + i, lanes);
    });
  });
}

void store_row_simd(const StoreRow& row) {
  const F32 d;
  with_type(row.dtype, [&](auto* type) {
    using T = Element<decltype(type)>;
    T* y = static_cast<T*>(row.y);
    const auto store_all = [&](auto bias_at) {
      for_each_vector(d, static_cast<std::size_t>(row.n), [&](std::size_t lanes, std::size_t i) {
        VecF v = bias_at(load_some(d, row.acc + i, lanes), lanes, i);
        if (row.accumulate) v = hn::Add(v, load_some(d, y + i, lanes));
        store_some(d, v, y + i, lanes);
      });
    };
    if (row.bias == nullptr) {
      store_all([](VecF v, std::size_t, std::size_t) { return v; });
      return;
    }
    with_type(row.bias_dtype, [&](auto* bias_type) {
      const auto* bias = static_cast<const Element<decltype(bias_type)>*>(row.bias);
      store_all([&](VecF v, std::size_t lanes, std::size_t i) {
        return hn::Add(v, load_some(d, bias + i, lanes));
      });
    });
  });
}

template <typename X>
HWY_INLINE float mean_of(F32 d, const X* x, std::size_t n) {
  VecF sum = hn::Zero(d);
  for_each_vector(d, n, [&](std::size_t lanes, std::size_t i) {
    sum = hn::Add(sum, load_some(d, x + i, lanes));
  });
  return sum_of(d, sum) / static_cast<float>(n);
}

// The sum of (x - mean)^2.
template <typename X>
HWY_INLINE float squares_of(F32 d, const X* x, std::size_t n, float mean = 0) {
  VecF squares = hn::Zero(d);
  const VecF means = hn::Set(d, mean);
  for_each_vector(d, n, [&](std::size_t lanes, std::size_t i) {
    // Lanes behind the row's end are zeros, and have to stay so.
    const VecF taken_off =
        lanes == hn::Lanes(d) ? means : hn::IfThenElseZero(hn::FirstN(d, lanes), means);
    const VecF v = hn::Sub(load_some(d, x + i, lanes), taken_off);
    squares = hn::MulAdd(v, v, squares);
  });
  return sum_of(d, squares);
}

HWY_INLINE float norm_factor(float squares, std::int64_t width, float eps) {
  return 1.0F / std::sqrt(squares / static_cast<float>(width) + eps);
}

float row_squares_simd(DType dtype, const void* x, std::int64_t n) {
  float squares = 0;
  with_type(dtype, [&](auto* type) {
    squares = squares_of(F32(), static_cast<const Element<decltype(type)>*>(x),
                         static_cast<std::size_t>(n));
  });
  return squares;
}

void norm_row_simd(const NormRow& row) {
  const F32 d;
  const auto n = static_cast<std::size_t>(row.n);
  with_type(row.x_dtype, [&](auto* type) {
    const auto* x = static_cast<const Element<decltype(type)>*>(row.x);
    const float mean = row.centred ? mean_of(d, x, n) : 0;
    const VecF factor =
        hn::Set(d, row.squares != nullptr ? norm_factor(*row.squares, row.width, row.eps)
                                          : norm_factor(squares_of(d, x, n, mean), row.n, row.eps));
    const VecF means = hn::Set(d, mean);
    with_type(row.out_dtype, [&](auto* out_type) {
      auto* out = static_cast<Element<decltype(out_type)>*>(row.out);
      for_each_vector(d, n, [&](std::size_t lanes, std::size_t i) {
        const VecF v = hn::Mul(hn::Sub(load_some(d, x + i, lanes), means), factor);
        const VecF weight =
            row.weight == nullptr ? hn::Set(d, 1.0F) : load_some(d, row.weight + i, lanes);
        store_some(d, hn::Mul(v, weight), out + i, lanes);
      });
    });
  });
}

void add_row_simd(const AddRow& row) {
  const F32 d;
  const auto n = static_cast<std::size_t>(row.n);
  const bool norms = row.weight != nullptr;
  const VecF factor =
      hn::Set(d, norms ? norm_factor(squares_of(d, row.sum, n), row.n, row.eps) : 1.0F);
  for_each_vector(d, n, [&](std::size_t lanes, std::size_t i) {
    VecF v = load_some(d, row.sum + i, lanes);
    if (norms) v = hn::Mul(hn::Mul(v, factor), load_some(d, row.weight + i, lanes));
    store_some(d, hn::Add(load_some(d, row.residual + i, lanes), v), row.residual + i, lanes);
  });
}

void rope_row_simd(const RopeRow& row) {
  const F32 d;
  with_type(row.dtype, [&](auto* type) {
    using T = Element<decltype(type)>;
    auto* low = static_cast<T*>(row.x);
    if (row.interleaved) {
      for (std::int64_t i = 0; i < row.pairs; ++i) {
        const float a = to_float(low[2 * i]);
        const float b = to_float(low[2 * i + 1]);
        low[2 * i] = from_float<T>(a * row.cos[i] - b * row.sin[i]);
        low[2 * i + 1] = from_float<T>(b * row.cos[i] + a * row.sin[i]);
      }
      return;
    }
    auto* high = low + row.pairs;
    for_each_vector(d, static_cast<std::size_t>(row.pairs), [&](std::size_t lanes, std::size_t i) {
      const VecF a = load_some(d, low + i, lanes);
      const VecF b = load_some(d, high + i, lanes);
      const VecF c = load_some(d, row.cos + i, lanes);
      const VecF s = load_some(d, row.sin + i, lanes);
      store_some(d, hn::NegMulAdd(b, s, hn::Mul(a, c)), low + i, lanes);
      store_some(d, hn::MulAdd(a, s, hn::Mul(b, c)), high + i, lanes);
    });
  });
}

HWY_INLINE VecF silu(F32 d, VecF x) {
  // exp overflows beyond 88; silu(x) is 0 in float long before x reaches -88.
  const VecF e = hn::Exp(d, hn::Neg(hn::Max(x, hn::Set(d, -87.0F))));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0F), e));
}

HWY_INLINE VecF gelu_tanh(F32 d, VecF x) {
  const VecF cube = hn::Mul(hn::Mul(x, x), x);
  const VecF inner = hn::Mul(hn::Set(d, 0.79788456080286535588F),  // sqrt(2 / pi)
                             hn::MulAdd(hn::Set(d, 0.044715F), cube, x));
  const VecF half = hn::Mul(hn::Set(d, 0.5F), x);
  return hn::MulAdd(half, hn::Tanh(d, inner), half);
}

void gate_row_simd(const GateRow& row) {
  const F32 d;
  with_type(row.dtype, [&](auto* type) {
    const auto* gate = static_cast<const Element<decltype(type)>*>(row.gate);
    const auto* up = static_cast<const Element<decltype(type)>*>(row.up);
    with_type(row.out_dtype, [&](auto* out_type) {
      auto* out = static_cast<Element<decltype(out_type)>*>(row.out);
      const auto gate_by = [&](auto activation) {
        for_each_vector(d, static_cast<std::size_t>(row.n), [&](std::size_t lanes, std::size_t i) {
          const VecF x = activation(d, load_some(d, gate + i, lanes));
          store_some(d, hn::Mul(x, load_some(d, up + i, lanes)), out + i, lanes);
        });
      };
      if (row.activation == Activation::silu) {
        gate_by([](F32 tag, VecF x) { return silu(tag, x); });
      } else {
        gate_by([](F32 tag, VecF x) { return gelu_tanh(tag, x); });
      }
    });
  });
}

void cap_row_simd(float* x, std::int64_t n, float cap) {
  const F32 d;
  const VecF caps = hn::Set(d, cap);
  for_each_vector(d, static_cast<std::size_t>(n), [&](std::size_t lanes, std::size_t i) {
    const VecF v = hn::Div(load_some(d, x + i, lanes), caps);
    store_some(d, hn::Mul(hn::Tanh(d, v), caps), x + i, lanes);
  });
}

}  // namespace
}  // namespace tandem::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "gpu/host/kernels/noted_rows.h"

namespace tandem::host {

HWY_EXPORT(widen_row_simd);
HWY_EXPORT(scale_typed_row_simd);
HWY_EXPORT(store_row_simd);
HWY_EXPORT(norm_row_simd);
HWY_EXPORT(row_squares_simd);
HWY_EXPORT(add_row_simd);
HWY_EXPORT(rope_row_simd);
HWY_EXPORT(gate_row_simd);
HWY_EXPORT(cap_row_simd);

void widen_row(DType dtype, const void* source, std::int64_t n, float scale, float* target) {
  note_read_row(source, n, size_of(dtype));
  note_write_row(target, padded(n), sizeof(float));
  HWY_DYNAMIC_DISPATCH(widen_row_simd)(dtype, source, n, scale, target);
}
void scale_typed_row(DType dtype, void* x, std::int64_t n, float factor) {
  note_write_row(x, n, size_of(dtype));
  HWY_DYNAMIC_DISPATCH(scale_typed_row_simd)(dtype, x, n, factor);
}
void store_row(const StoreRow& row) {
  note_read_row(row.acc, row.n, sizeof(float));
  if (row.bias != nullptr) note_read_row(row.bias, row.n, size_of(row.bias_dtype));
  note_write_row(row.y, row.n, size_of(row.dtype));
  HWY_DYNAMIC_DISPATCH(store_row_simd)(row);
}
void norm_row(const NormRow& row) {
  note_read_row(row.x, row.n, size_of(row.x_dtype));
  if (row.weight != nullptr) note_read_row(row.weight, row.n, sizeof(float));
  note_write_row(row.out, row.n, size_of(row.out_dtype));
  HWY_DYNAMIC_DISPATCH(norm_row_simd)(row);
}
float row_squares(DType dtype, const void* x, std::int64_t n) {
  note_read_row(x, n, size_of(dtype));
  return HWY_DYNAMIC_DISPATCH(row_squares_simd)(dtype, x, n);
}
void add_row(const AddRow& row) {
  note_read_row(row.sum, row.n, sizeof(float));
  if (row.weight != nullptr) note_read_row(row.weight, row.n, sizeof(float));
  note_write_row(row.residual, row.n, sizeof(float));
  HWY_DYNAMIC_DISPATCH(add_row_simd)(row);
}
void rope_row(const RopeRow& row) {
  note_read_row(row.cos, row.pairs, sizeof(float));
  note_read_row(row.sin, row.pairs, sizeof(float));
  note_write_row(row.x, 2 * row.pairs, size_of(row.dtype));
  HWY_DYNAMIC_DISPATCH(rope_row_simd)(row);
}
void gate_row(const GateRow& row) {
  note_read_row(row.gate, row.n, size_of(row.dtype));
  note_read_row(row.up, row.n, size_of(row.dtype));
  note_write_row(row.out, row.n, size_of(row.out_dtype));
  HWY_DYNAMIC_DISPATCH(gate_row_simd)(row);
}
void cap_row(float* x, std::int64_t n, float cap) {
  note_write_row(x, n, sizeof(float));
  HWY_DYNAMIC_DISPATCH(cap_row_simd)(x, n, cap);
}

}  // namespace tandem::host
#endif
