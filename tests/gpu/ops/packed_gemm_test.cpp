#include <fmt/format.h>

#include <algorithm>

#include "tests/gpu/ops/ops_fixture.h"
#include "tests/gpu/ops/test_weight.h"

namespace tandem {
namespace {

class PackedGemm : public OpsTest {
 protected:
  struct Case {
    DType dtype, out;
    std::int64_t t, in, outputs;
    bool biased = false, accumulate = false, ordered = false;
    std::int64_t extra_stride = 0;
  };
  void check(const NamedForm& named, const Case& c) {
    const std::string what = fmt::format(
        "{}: {} to {}, T {} in {} out {}{}{}{}, y rows {} apart", named.name, to_string(c.dtype),
        to_string(c.out), c.t, c.in, c.outputs, c.biased ? " bias" : "",
        c.accumulate ? " accumulate" : "", c.ordered ? " ordered" : "", c.outputs + c.extra_stride);
    const TestTensor x = tensor(c.dtype, {c.t, c.in}, 1, c.extra_stride);
    const TestWeight w(*device_, *stream_, random_, named.form, c.outputs, c.in, c.ordered);
    const TestTensor bias = tensor(c.dtype, {c.outputs});
    const TestTensor y = tensor(c.out, {c.t, c.outputs}, 1, c.extra_stride);
    const GemmArgs args{x.on_device(), w.on_device(), c.biased ? bias.on_device() : TensorView(),
                        y.on_device(), c.accumulate};
    reference::gemm(
        {x.host(), w.host(), c.biased ? bias.host() : TensorView(), y.host(), c.accumulate});
    stream_->gemm(args);
    expect_same(y, what, tolerance(c));
    if (c.accumulate || HasFatalFailure()) return;
    const std::vector<std::byte> once = y.download(*stream_);
    stream_->gemm(args);
    EXPECT_TRUE(once == y.download(*stream_)) << what << ": another result the second time";
  }
  void check_random(const NamedForm& named, std::int64_t t, std::int64_t in, std::int64_t outputs) {
    const DType dtype = kDtypes[pick(0, 2)];
    check(named, {dtype, pick(0, 1) == 0 ? dtype : DType::f32, t, in, outputs, pick(0, 1) == 1,
                  pick(0, 1) == 1, pick(0, 2) == 0, pick(0, 1) * pick(1, 40)});
  }
  // A device may round unpacked weights to a dtype of 16 bits, which changes each product by up to
  // 2^-9 or 2^-12 of itself. With offsets, products are larger than their sum.
  static Tolerance tolerance(const Case& c) {
    Tolerance tolerance = tolerance_of(c.out);
    if (c.dtype != DType::f32) tolerance.absolute += c.dtype == DType::bf16 ? 0.05 : 0.006;
    return tolerance;
  }

  const std::vector<NamedForm> forms_ = served_forms();
};

TEST_F(PackedGemm, MatchesTheTwinAtEveryNumberOfRowsUpToSeventy) {
  for (std::int64_t t = 0; t <= 70; ++t) {
    const NamedForm& named = forms_[static_cast<std::size_t>(t) % forms_.size()];
    check(named, {kDtypes[t % 3], kDtypes[t % 3], t, 256, 37});
  }
}

// Whole groups and blocks of groups, short last ones, and rows of codes that end within a byte.
TEST_F(PackedGemm, MatchesTheTwinForRandomShapesOfEveryForm) {
  for (const NamedForm& named : forms_) {
    SCOPED_TRACE(named.name);
    const std::int64_t group = std::min(named.form.group, 128);
    check_random(named, pick(1, 8), 256 * pick(1, 5), pick(1, 70));
    check_random(named, pick(9, 70), 256 * pick(1, 3), pick(1, 70));
    check_random(named, pick(1, 8), group * pick(1, 9), pick(1, 150));
    check_random(named, pick(1, 70), group * pick(1, 4) + pick(1, group), pick(1, 70));
    check_random(named, pick(1, 8), pick(1, 40), pick(1, 40));
  }
}

TEST_F(PackedGemm, MatchesTheTwinInFloatForTheRowsOfADecodeStep) {
  for (const NamedForm& named : forms_) {
    for (const std::int64_t t : {1, 2, 3, 5, 8}) {
      check(named, {DType::f32, DType::f32, t, 512, 35, t % 2 == 1, t % 2 == 0});
    }
  }
}

TEST_F(PackedGemm, MatchesTheTwinBeyondOneBlockOfRows) {
  for (const DType dtype : kDtypes) {
    check(forms_[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(forms_.size()) - 1))],
          {dtype, dtype, 530, 256, 33, true, true, true, 5});
  }
}

TEST_F(PackedGemm, MatchesTheTwinForALongInnerDimension) {
  for (const NamedForm& named : forms_) {
    check(named, {DType::f32, DType::f32, 1, 9216, 5});
    check(named, {DType::bf16, DType::bf16, 7, 5504, 40});
  }
}

TEST_F(PackedGemm, MatchesTheTwinForGroupsOfUncommonSizes) {
  for (NamedForm named : forms_) {
    if (named.form.group > 128) continue;
    named.form.group = static_cast<std::int32_t>(pick(1, 100));
    check_random(named, pick(1, 20), pick(1, 700), pick(1, 20));
    named.form.group = 16;
    check_random(named, pick(1, 20), pick(1, 700), pick(1, 20));
  }
}

TEST_F(PackedGemm, MatchesTheTwinForManyGroupsInARow) {
  for (NamedForm named : forms_) {
    if (named.form.group > 128) continue;
    named.form.group = 16;
    check_random(named, pick(1, 20), 16 * pick(257, 600), pick(1, 7));
    named.form.scales.nested = static_cast<std::int32_t>(pick(1, 50));
    check_random(named, pick(1, 20), 16 * pick(257, 600), pick(1, 7));
  }
}

TEST_F(PackedGemm, EmbedsRowsOfAPackedTable) {
  for (const NamedForm& named : forms_) {
    for (const DType dtype : kDtypes) {
      const std::int64_t width = 256 * pick(1, 3) + pick(0, 1) * pick(0, 255);
      const TestWeight table(*device_, *stream_, random_, named.form, 40, width);
      const auto ids = array<std::int32_t>({3, 0, 39, 3, 47, 8});
      const TestTensor out = tensor(dtype, {6, width});
      const float scale = dtype == DType::f32 ? 3 : 1;
      reference::embed({table.host(), ids.host(), out.host(), 3, 50, scale});
      stream_->embed({table.on_device(), ids.on_device(), out.on_device(), 3, 50, scale});
      expect_same(out, fmt::format("{}, {}, {} wide", named.name, to_string(dtype), width));
    }
  }
}

}  // namespace
}  // namespace tandem
