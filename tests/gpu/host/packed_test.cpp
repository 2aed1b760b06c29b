// Compares packed weights' kernels with their twin on every instruction set that this CPU has.
#include "gpu/host/kernels/packed.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "gpu/host/kernels/simd_targets.h"
#include "hwy/highway.h"
#include "tests/gpu/ops/ops_fixture.h"
#include "tests/gpu/ops/test_weight.h"
#include "tests/gpu/reference/packed_twin.h"

namespace tandem::host {
namespace {

class Packed : public OpsTest {
 protected:
  // Runs body(weight) for every form and instruction set, for rows of several lengths.
  template <typename Body>
  void for_each_weight(Body body) {
    for (NamedForm named : served_forms()) {
      for (const std::int32_t group : {named.form.group, std::min(named.form.group, 16), 24}) {
        named.form.group = group;
        const std::int64_t cols = pick(0, 1) == 1 ? 256 * pick(1, 3) : pick(1, 700);
        const TestWeight weight(*device_, *stream_, random_, named.form, 5, cols);
        for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
          SCOPED_TRACE(fmt::format("{}, groups of {}, {} columns, {}", named.name, group, cols,
                                   hwy::TargetName(target)));
          hwy::SetSupportedTargetsForTest(target);
          body(weight.host());
        }
        hwy::SetSupportedTargetsForTest(0);
      }
    }
  }
};

TEST_F(Packed, RowsAreUnpackedInEveryDtype) {
  for_each_weight([&](const Weight& weight) {
    const std::int64_t cols = weight.cols();
    for (const DType dtype : kDtypes) {
      const auto size = static_cast<std::int64_t>(size_of(dtype));
      const std::int64_t stride = cols + 3;
      std::vector<std::byte> rows(static_cast<std::size_t>(3 * stride * size), std::byte{0x5a});
      unpack_rows(weight, 1, 3, dtype, rows.data(), stride);
      for (std::int64_t r = 0; r < 3; ++r) {
        const std::vector<float> want = reference::row_of(weight, 1 + r);
        std::vector<float> got(want.size());
        const std::byte* const row = rows.data() + r * stride * size;
        convert(dtype, row, DType::f32, got.data(), got.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          // Scale and offset may cancel, which leaves their roundings.
          const double rounding = dtype == DType::f32 ? 0 : dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
          ASSERT_NEAR(got[i], want[i], 1e-6 + rounding * std::abs(want[i])) << "place " << i;
        }
        for (std::int64_t i = cols * size; i < stride * size; ++i) {
          ASSERT_EQ(row[i], std::byte{0x5a}) << "behind the row";
        }
      }
    }
  });
}

TEST_F(Packed, ProductsSumEveryRowAndOutput) {
  for_each_weight([&](const Weight& weight) {
    const std::int64_t cols = weight.cols();
    const std::int64_t stride = padded_for_packed(cols);
    for (std::int64_t rows = 1; rows <= kMaxPackedRows; ++rows) {
      std::vector<float> x(static_cast<std::size_t>(rows_for_packed(rows) * stride), 0.0F);
      std::uniform_real_distribution<float> uniform(-1, 1);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t i = 0; i < cols; ++i) {
          x[static_cast<std::size_t>(r * stride + i)] = uniform(random_);
        }
      }
      std::vector<float> arranged = x;
      for (std::int64_t r = 0; r < rows; ++r) arrange_row(weight, arranged.data() + r * stride);
      std::vector<float> acc(static_cast<std::size_t>(rows * 6), -7.0F);
      dot_packed({weight, 1, 4, arranged.data(), stride, rows, acc.data(), 6});
      for (std::int64_t o = 0; o < 6; ++o) {
        const auto w = o < 4 ? reference::row_of(weight, 1 + o) : std::vector<float>(0);
        for (std::int64_t r = 0; r < rows; ++r) {
          double want = o < 4 ? 0 : -7;
          for (std::size_t i = 0; i < w.size(); ++i) {
            want += double{w[i]} * x[static_cast<std::size_t>(r * stride) + i];
          }
          ASSERT_NEAR(acc[static_cast<std::size_t>(r * 6 + o)], want, 2e-5 + 1e-5 * std::abs(want))
              << "row " << r << " of " << rows << ", output " << o;
        }
      }
    }
  });
}

}  // namespace
}  // namespace tandem::host
