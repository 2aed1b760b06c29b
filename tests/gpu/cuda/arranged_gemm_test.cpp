// Products by weights in the CUDA device's own layout, whose kernels other weights do not reach.
#include <fmt/format.h>

#include <algorithm>

#include "gpu/cuda/packed/layout.h"
#include "tests/gpu/ops/ops_fixture.h"
#include "tests/gpu/ops/test_weight.h"

namespace tandem {
namespace {

class ArrangedGemm : public OpsTest {
 protected:
  struct Case {
    DType dtype, out;
    std::int64_t t, in, outputs;
    bool biased = false, accumulate = false, ordered = false;
  };
  // True if the weight could be arranged. Nothing is rounded but float sums and the result.
  bool check(const NamedForm& named, const Case& c) {
    const std::string what =
        fmt::format("{}: {} to {}, T {} in {} out {}{}{}{}", named.name, to_string(c.dtype),
                    to_string(c.out), c.t, c.in, c.outputs, c.biased ? " bias" : "",
                    c.accumulate ? " accumulate" : "", c.ordered ? " ordered" : "");
    const TestWeight made(*device_, *stream_, random_, named.form, c.outputs, c.in, c.ordered);
    Weight w = made.on_device();
    const Status status = stream_->arrange(w);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(w.arranged, cuda::can_arrange(made.on_device())) << what;
    if (device_->keeps_packed(named.form, c.outputs, c.in, c.dtype)) {
      EXPECT_TRUE(w.arranged) << what;
    }
    if (!w.arranged) return false;
    const TestTensor x = tensor(c.dtype, {c.t, c.in});
    const TestTensor bias = tensor(c.dtype, {c.outputs});
    const TestTensor y = tensor(c.out, {c.t, c.outputs}, 1, pick(0, 1) == 0 ? 8 : 3);
    reference::gemm(
        {x.host(), made.host(), c.biased ? bias.host() : TensorView(), y.host(), c.accumulate});
    const GemmArgs args{x.on_device(), w, c.biased ? bias.on_device() : TensorView(), y.on_device(),
                        c.accumulate};
    stream_->gemm(args);
    Tolerance tolerance = tolerance_of(c.out);
    if (c.dtype == DType::f32 || c.t <= 64) {
      tolerance.absolute = std::max(tolerance.absolute, 1e-4);
    } else {  // many rows: by numbers rounded to x's dtype
      tolerance.absolute += c.dtype == DType::bf16 ? 0.02 : 0.003;
    }
    expect_same(y, what, tolerance);
    if (c.accumulate) return true;
    const std::vector<std::byte> once = y.download(*stream_);
    stream_->gemm(args);
    EXPECT_TRUE(once == y.download(*stream_)) << what << ": another result the second time";
    return true;
  }
};

TEST_F(ArrangedGemm, MatchesTheTwinForTheFewRowsOfADecodeStep) {
  int arranged = 0;
  for (const NamedForm& named : served_forms()) {
    for (const std::int64_t t : {1, 2, 8, 9, 16, 17, 32, 33, 64}) {
      const DType dtype = kDtypes[pick(1, 2)];
      const DType out = pick(0, 1) == 0 ? dtype : DType::f32;
      const std::int64_t line = named.form.bits == 8 ? 128 : 256;  // columns
      const bool known = check(named, {dtype, out, t, line * pick(2, 9), 16 * pick(1, 40),
                                       pick(0, 1) == 1, pick(0, 1) == 1, pick(0, 3) == 0});
      if (!known) break;
      ++arranged;
      if (HasFailure()) return;
    }
  }
  EXPECT_GE(arranged, 12 * 9);
}

// Shapes that blocks of a cluster share, and that a block computes in several groups.
TEST_F(ArrangedGemm, MatchesTheTwinForTheShapesOfModels) {
  const auto any_rows = [&] { return std::int64_t{1} << (2 * pick(0, 3)); };
  for (const NamedForm& named : served_forms()) {
    if (!check(named, {DType::bf16, DType::f32, any_rows(), 4096, 1024, false, true})) continue;
    check(named, {DType::f16, DType::f16, any_rows(), 2048, 4096});
    check(named, {DType::bf16, DType::bf16, any_rows(), 256, 28672});
    // Blocks of a cluster that compute groups of rows, and stages that they cannot share evenly.
    check(named, {DType::bf16, DType::bf16, pick(17, 64), 2816, 12288});
  }
}

TEST_F(ArrangedGemm, MatchesTheTwinForManyRowsAndForFloats) {
  for (const NamedForm& named : served_forms()) {
    for (const DType dtype : kDtypes) {
      if (!check(named, {dtype, dtype, 100, 768, 80, true, true, pick(0, 1) == 1})) break;
      check(named, {DType::f32, DType::f32, pick(1, 9), 512, 48, false, false, true});
    }
  }
}

// Both halves are rounded before the activation, either way if they are near the middle.
TEST_F(ArrangedGemm, EndsInSwigluAsTheTwinsDo) {
  for (const NamedForm& named : served_forms()) {
    for (const std::int64_t t : {1, 8, 20, 64}) {
      // Warps of 16 rows, or of 32, in which gate and up meet, and blocks with groups of rows.
      const std::int64_t ffn = t == 8 || t == 64 ? 16 * pick(1, 150) : 16 * pick(600, 1800);
      const std::int64_t in = 256 * pick(1, ffn > 9000 ? 2 : 5);
      const DType dtype = kDtypes[pick(1, 2)];
      const TestWeight made(*device_, *stream_, random_, named.form, 2 * ffn, in);
      Weight w = made.on_device();
      ASSERT_TRUE(stream_->arrange(w).ok());
      if (!w.arranged) break;
      const TestTensor x = tensor(dtype, {t, in}, 2);
      const TestTensor gate_up = tensor(dtype, {t, 2 * ffn});
      const TestTensor out = tensor(dtype, {t, ffn});
      for (const Activation activation : {Activation::silu, Activation::gelu_tanh}) {
        stream_->gemm_swiglu({x.on_device(), w, gate_up.on_device(), out.on_device(), activation});
        reference::gemm({x.host(), made.host(), {}, gate_up.host()});
        reference::swiglu({gate_up.host(), out.host(), activation});
        Tolerance tolerance = tolerance_of(dtype);
        tolerance.absolute = dtype == DType::bf16 ? 0.03 : 0.004;
        tolerance.relative = std::max(tolerance.relative, dtype == DType::bf16 ? 0.016 : 0.002);
        expect_same(out,
                    fmt::format("{} {} T {} in {} ffn {} {}", named.name, to_string(dtype), t, in,
                                ffn, to_string(activation)),
                    tolerance);
      }
    }
  }
}

TEST_F(ArrangedGemm, EmbedsRowsOfAnArrangedTable) {
  for (const NamedForm& named : served_forms()) {
    const TestWeight made(*device_, *stream_, random_, named.form, 48, 512);
    Weight table = made.on_device();
    ASSERT_TRUE(stream_->arrange(table).ok());
    const auto ids = array<std::int32_t>({3, 0, 47, 3, 12, 8});
    const TestTensor out = tensor(DType::f32, {6, 512});
    reference::embed({made.host(), ids.host(), out.host()});
    stream_->embed({table, ids.on_device(), out.on_device()});
    expect_same(out, named.name);
  }
}

}  // namespace
}  // namespace tandem
