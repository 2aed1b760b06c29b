// Compares the vector loops with plain loops on every instruction set that this CPU has and Highway
// compiled, not only the best one.
#include "gpu/host/kernels/kernels.h"
#include "gpu/host/kernels/dot_bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "gpu/host/kernels/simd_targets.h"
#include "hwy/highway.h"
#include "tests/gpu/reference/tolerance.h"

namespace tandem::host {
namespace {

class Kernels : public testing::TestWithParam<DType> {
 protected:
  // Runs body once per instruction set.
  template <typename Body>
  void on_every_target(Body body) {
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      SCOPED_TRACE(hwy::TargetName(target));
      hwy::SetSupportedTargetsForTest(target);
      body();
    }
    hwy::SetSupportedTargetsForTest(0);
  }

  std::vector<float> random(std::size_t count, float scale = 1) {
    std::uniform_real_distribution<float> uniform(-scale, scale);
    std::vector<float> values(count);
    for (float& value : values) value = uniform(random_);
    return values;
  }
  // Converts the values to the parameter's dtype, and replaces them by their rounded values.
  std::vector<std::byte> narrow(std::vector<float>& values) {
    std::vector<std::byte> bytes(values.size() * size_of(GetParam()));
    convert(DType::f32, values.data(), GetParam(), bytes.data(), values.size());
    convert(GetParam(), bytes.data(), DType::f32, values.data(), values.size());
    return bytes;
  }
  void expect_near(float got, double want) {
    EXPECT_TRUE(tolerance_of(DType::f32).accepts(got, want)) << got << " for " << want;
  }

  std::mt19937_64 random_{20261120};
};

TEST_P(Kernels, DotTileSumsEveryRowAndOutput) {
  on_every_target([&] {
    for (const std::int64_t k : {1, 7, 16, 40, 1024, 1100}) {
      for (std::int64_t rows = 1; rows <= 19; ++rows) {
        const std::int64_t outputs = 1 + (rows * 5 + k) % 13;
        auto w = random(static_cast<std::size_t>(outputs * k), 0.1F);
        const auto weights = narrow(w);
        std::vector<float> x(static_cast<std::size_t>(rows * padded(k)), 0.0F);
        for (std::int64_t r = 0; r < rows; ++r) {
          const auto row = random(static_cast<std::size_t>(k));
          std::copy(row.begin(), row.end(), x.begin() + r * padded(k));
        }
        std::vector<float> acc(static_cast<std::size_t>(rows * outputs), NAN);
        dot_tile({GetParam(), weights.data(), k, outputs, k, x.data(), padded(k), rows, acc.data(),
                  outputs});
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t o = 0; o < outputs; ++o) {
            double want = 0;
            for (std::int64_t i = 0; i < k; ++i) {
              want += static_cast<double>(x[static_cast<std::size_t>(r * padded(k) + i)]) *
                      w[static_cast<std::size_t>(o * k + i)];
            }
            expect_near(acc[static_cast<std::size_t>(r * outputs + o)], want);
          }
        }
      }
    }
  });
}

TEST_P(Kernels, MixTileAddsTheWeightedRows) {
  on_every_target([&] {
    for (const std::int64_t d : {2, 16, 30, 64, 130, 256}) {
      for (std::int64_t rows = 1; rows <= 6; ++rows) {
        const std::int64_t tokens = rows * 3;
        auto v = random(static_cast<std::size_t>(tokens * d));
        const auto values = narrow(v);
        const auto p = random(static_cast<std::size_t>(rows * tokens));
        std::vector<float> acc(static_cast<std::size_t>(rows * padded(d)), 0.5F);
        mix_tile({GetParam(), values.data(), d, tokens, d, p.data(), tokens, rows, acc.data(),
                  padded(d)});
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t i = 0; i < d; ++i) {
            double want = 0.5;
            for (std::int64_t t = 0; t < tokens; ++t) {
              want += static_cast<double>(p[static_cast<std::size_t>(r * tokens + t)]) *
                      v[static_cast<std::size_t>(t * d + i)];
            }
            expect_near(acc[static_cast<std::size_t>(r * padded(d) + i)], want);
          }
        }
      }
    }
  });
}

TEST_P(Kernels, StoreRowRoundsAsTheScalarConversionDoes) {
  on_every_target([&] {
    for (std::size_t n = 1; n <= 40; ++n) {
      auto values = random(n, 100);
      values[0] = n % 2 == 0 ? NAN : INFINITY;
      std::vector<std::byte> want(n * size_of(GetParam()));
      std::vector<std::byte> got(want.size());
      convert(DType::f32, values.data(), GetParam(), want.data(), n);
      store_row({values.data(), static_cast<std::int64_t>(n), GetParam(), nullptr, GetParam(),
                 got.data(), false});
      std::vector<float> got_values(n);
      std::vector<float> want_values(n);
      convert(GetParam(), got.data(), DType::f32, got_values.data(), n);
      convert(GetParam(), want.data(), DType::f32, want_values.data(), n);
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_TRUE(got_values[i] == want_values[i] ||
                    (std::isnan(got_values[i]) && std::isnan(want_values[i])))
            << values[i] << " became " << got_values[i];
      }
    }
  });
}

TEST_P(Kernels, ExponentialsAndMaximaIgnoreWhatLiesBehindTheRow) {
  on_every_target([&] {
    for (std::size_t n = 1; n <= 40; ++n) {
      auto row = random(n + 1, 5);
      row[n] = 1000;
      double sum = 0;
      float max = -INFINITY;
      for (std::size_t i = 0; i < n; ++i) {
        sum += std::exp(row[i] - 1.0);
        max = std::max(max, row[i]);
      }
      EXPECT_EQ(max_row(row.data(), static_cast<std::int64_t>(n)), max);
      expect_near(exp_row(row.data(), static_cast<std::int64_t>(n), 1), sum);
      EXPECT_EQ(row[n], 1000);
    }
  });
}

TEST(DotBf16, SumsEveryRowAndOutput) {
  if (!can_dot_bf16()) GTEST_SKIP() << "this CPU multiplies no pairs of bf16";
  std::mt19937_64 random{20261124};
  std::uniform_real_distribution<float> uniform(-1, 1);
  const auto some = [&](std::int64_t count) {
    std::vector<bf16> values(static_cast<std::size_t>(count));
    for (bf16& value : values) value = from_float<bf16>(uniform(random));
    return values;
  };
  for (const std::int64_t k : {0, 1, 31, 32, 40, 2048, 2100, 4500}) {
    for (const std::int64_t rows : {1, 3, 4, 9, 130}) {
      const std::int64_t outputs = 1 + (rows * 5 + k) % 13;
      const std::int64_t stride = k + rows % 3;
      const std::vector<bf16> w = some(outputs * stride);
      const std::vector<bf16> x = some(rows * stride);
      const std::int64_t acc_stride = outputs + 2;
      std::vector<float> acc(static_cast<std::size_t>(rows * acc_stride), -7.0F);
      dot_bf16({w.data(), stride, outputs, k, x.data(), stride, rows, acc.data(), acc_stride});
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t o = 0; o < acc_stride; ++o) {
          double want = o < outputs ? 0 : -7;
          for (std::int64_t i = 0; o < outputs && i < k; ++i) {
            want += double{to_float(x[static_cast<std::size_t>(r * stride + i)])} *
                    to_float(w[static_cast<std::size_t>(o * stride + i)]);
          }
          const float got = acc[static_cast<std::size_t>(r * acc_stride + o)];
          ASSERT_NEAR(got, want,
                      1e-5 * std::sqrt(static_cast<double>(k) + 1) + 1e-6 * std::abs(want))
              << "row " << r << ", output " << o << ", k " << k;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllDtypes, Kernels, testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace tandem::host
