// The row loops of conversion, norm, rotary embedding and SwiGLU.
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

template <typename X, typename W, typename Y>
void norm_typed(const NormRow& row) {
  const F32 d;
  const auto n = static_cast<std::size_t>(row.n);
  const X* x = static_cast<const X*>(row.x);
  const W* weight = static_cast<const W*>(row.weight);
  Y* out = static_cast<Y*>(row.out);
  VecF squares = hn::Zero(d);
  for_each_vector(d, n, [&](std::size_t lanes, std::size_t i) {
    const VecF v = load_some(d, x + i, lanes);
    squares = hn::MulAdd(v, v, squares);
  });
  const float mean = sum_of(d, squares) / static_cast<float>(row.n);
  const VecF factor = hn::Set(d, 1.0F / std::sqrt(mean + row.eps));
  for_each_vector(d, n, [&](std::size_t lanes, std::size_t i) {
    const VecF v = hn::Mul(load_some(d, x + i, lanes), factor);
    store_some(d, hn::Mul(v, load_some(d, weight + i, lanes)), out + i, lanes);
  });
}

void norm_row_simd(const NormRow& row) {
  with_type(row.x_dtype, [&](auto* x) {
    with_type(row.weight_dtype, [&](auto* w) {
      with_type(row.out_dtype, [&](auto* y) {
        norm_typed<Element<decltype(x)>, Element<decltype(w)>, Element<decltype(y)>>(row);
      });
    });
  });
}

void rope_row_simd(DType dtype, void* data, std::int64_t half, const float* cos, const float* sin) {
  const F32 d;
  with_type(dtype, [&](auto* type) {
    auto* low = static_cast<Element<decltype(type)>*>(data);
    auto* high = low + half;
    for_each_vector(d, static_cast<std::size_t>(half), [&](std::size_t lanes, std::size_t i) {
      const VecF a = load_some(d, low + i, lanes);
      const VecF b = load_some(d, high + i, lanes);
      const VecF c = load_some(d, cos + i, lanes);
      const VecF s = load_some(d, sin + i, lanes);
      store_some(d, hn::NegMulAdd(b, s, hn::Mul(a, c)), low + i, lanes);
      store_some(d, hn::MulAdd(a, s, hn::Mul(b, c)), high + i, lanes);
    });
  });
}

void swiglu_row_simd(DType dtype, const void* gate_data, const void* up_data, std::int64_t n,
                     DType out_dtype, void* out_data) {
  const F32 d;
  const VecF one = hn::Set(d, 1.0F);
  // exp overflows beyond 88; silu(x) is 0 in float long before x reaches -88.
  const VecF lowest = hn::Set(d, -87.0F);
  with_type(dtype, [&](auto* type) {
    const auto* gate = static_cast<const Element<decltype(type)>*>(gate_data);
    const auto* up = static_cast<const Element<decltype(type)>*>(up_data);
    with_type(out_dtype, [&](auto* out_type) {
      auto* out = static_cast<Element<decltype(out_type)>*>(out_data);
      for_each_vector(d, static_cast<std::size_t>(n), [&](std::size_t lanes, std::size_t i) {
        const VecF x = load_some(d, gate + i, lanes);
        const VecF e = hn::Exp(d, hn::Neg(hn::Max(x, lowest)));
        const VecF silu = hn::Div(x, hn::Add(one, e));
        store_some(d, hn::Mul(silu, load_some(d, up + i, lanes)), out + i, lanes);
      });
    });
  });
}

}  // namespace
}  // namespace tandem::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "gpu/host/kernels/noted_rows.h"

namespace tandem::host {

HWY_EXPORT(widen_row_simd);
HWY_EXPORT(store_row_simd);
HWY_EXPORT(norm_row_simd);
HWY_EXPORT(rope_row_simd);
HWY_EXPORT(swiglu_row_simd);

void widen_row(DType dtype, const void* source, std::int64_t n, float scale, float* target) {
  note_read_row(source, n, size_of(dtype));
  note_write_row(target, padded(n), sizeof(float));
  HWY_DYNAMIC_DISPATCH(widen_row_simd)(dtype, source, n, scale, target);
}
void store_row(const StoreRow& row) {
  note_read_row(row.acc, row.n, sizeof(float));
  if (row.bias != nullptr) note_read_row(row.bias, row.n, size_of(row.bias_dtype));
  note_write_row(row.y, row.n, size_of(row.dtype));
  HWY_DYNAMIC_DISPATCH(store_row_simd)(row);
}
void norm_row(const NormRow& row) {
  note_read_row(row.x, row.n, size_of(row.x_dtype));
  note_read_row(row.weight, row.n, size_of(row.weight_dtype));
  note_write_row(row.out, row.n, size_of(row.out_dtype));
  HWY_DYNAMIC_DISPATCH(norm_row_simd)(row);
}
void rope_row(DType dtype, void* x, std::int64_t half, const float* cos, const float* sin) {
  note_read_row(cos, half, sizeof(float));
  note_read_row(sin, half, sizeof(float));
  note_write_row(x, 2 * half, size_of(dtype));
  HWY_DYNAMIC_DISPATCH(rope_row_simd)(dtype, x, half, cos, sin);
}
void swiglu_row(DType dtype, const void* gate, const void* up, std::int64_t n, DType out_dtype,
                void* out) {
  note_read_row(gate, n, size_of(dtype));
  note_read_row(up, n, size_of(dtype));
  note_write_row(out, n, size_of(out_dtype));
  HWY_DYNAMIC_DISPATCH(swiglu_row_simd)(dtype, gate, up, n, out_dtype, out);
}

}  // namespace tandem::host
#endif
