#include <fmt/format.h>

#include <cmath>

#include "tests/gpu/ops/ops_fixture.h"

namespace tandem {
namespace {

class Gemm : public OpsTest {
 protected:
  void check(DType dtype, DType out, std::int64_t t, std::int64_t in, std::int64_t outputs,
             bool biased, bool accumulate, std::int64_t extra_stride = 0) {
    const std::string what = fmt::format(
        "{} to {}, T {} in {} out {}{}{}, y rows {} apart", to_string(dtype), to_string(out), t, in,
        outputs, biased ? " bias" : "", accumulate ? " accumulate" : "", outputs + extra_stride);
    const TestTensor x = tensor(dtype, {t, in}, 1, extra_stride);
    const TestTensor w = tensor(dtype, {outputs, in}, 1 / std::sqrt(static_cast<float>(in)));
    const TestTensor bias = tensor(dtype, {outputs});
    const TestTensor y = tensor(out, {t, outputs}, 1, extra_stride);
    reference::gemm(
        {x.host(), w.host(), biased ? bias.host() : TensorView(), y.host(), accumulate});
    stream_->gemm({x.on_device(), w.on_device(), biased ? bias.on_device() : TensorView(),
                   y.on_device(), accumulate});
    expect_same(y, what);
  }

  // Compares the fused operation with the two separate ones, to the bit.
  void check_swiglu(DType dtype, std::int64_t t, std::int64_t in, std::int64_t ffn,
                    std::int64_t extra_stride) {
    const TestTensor x = tensor(dtype, {t, in}, 1, extra_stride);
    const TestTensor w = tensor(dtype, {2 * ffn, in}, 2 / std::sqrt(static_cast<float>(in)));
    const TestTensor gate_up = tensor(dtype, {t, 2 * ffn});
    const TestTensor at_once = tensor(dtype, {t, ffn}, 1, extra_stride);
    const TestTensor in_turn = tensor(dtype, {t, ffn}, 1, extra_stride);
    for (const Activation activation : {Activation::silu, Activation::gelu_tanh}) {
      stream_->gemm_swiglu(
          {x.on_device(), w.on_device(), gate_up.on_device(), at_once.on_device(), activation});
      stream_->gemm({x.on_device(), w.on_device(), {}, gate_up.on_device()});
      stream_->swiglu({gate_up.on_device(), in_turn.on_device(), activation});
      EXPECT_TRUE(at_once.download(*stream_) == in_turn.download(*stream_))
          << fmt::format("{} T {} in {} ffn {}, {}", to_string(dtype), t, in, ffn,
                         activation == Activation::silu ? "silu" : "gelu");
    }
  }
};

TEST_F(Gemm, MatchesTheTwinAtEveryNumberOfRowsUpToForty) {
  for (const DType dtype : kDtypes) {
    for (std::int64_t t = 0; t <= 40; ++t) check(dtype, dtype, t, 70, 37, false, false);
  }
}

TEST_F(Gemm, MatchesTheTwinForRandomShapesBiasesAndStrides) {
  for (int round = 0; round < 60; ++round) {
    const DType dtype = kDtypes[pick(0, 2)];
    const DType out = pick(0, 1) == 0 ? dtype : DType::f32;
    check(dtype, out, pick(1, 90), pick(1, 200), pick(1, 300), pick(0, 1) == 1, pick(0, 1) == 1,
          pick(0, 1) * pick(1, 40));
  }
}

TEST_F(Gemm, MatchesTheTwinBeyondOneBlockOfRows) {
  for (const DType dtype : kDtypes) check(dtype, dtype, 530, 48, 33, true, true, 5);
}

// The shapes of decoding: few rows, inner dimensions that split into whole vectors, outputs that do
// not fill the last tile, sums into the f32 residual.
TEST_F(Gemm, MatchesTheTwinForTheFewRowsOfADecodeStep) {
  for (const std::int64_t t : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64}) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const bool odd = t % 2 == 1;
      check(dtype, dtype, t, 64, 5, odd, false);
      check(dtype, dtype, t, 320, 133, !odd, odd, 8);
      check(dtype, DType::f32, t, 192, 301, odd, true, 24);
      if (t < 10) check(dtype, dtype, t, 64, 4300, odd, !odd, 40);
    }
  }
}

TEST_F(Gemm, MatchesTheTwinForALongInnerDimension) {
  for (const std::int64_t t : {1, 5, 32}) {
    check(DType::bf16, DType::bf16, t, 5504, 40, false, false);
    check(DType::f16, DType::f16, t, 5504, 40, false, true);
  }
}

// Shapes of decoding larger batches: outputs that leave some blocks without rows, that are odd, or
// that a block computes in several groups; inner dimensions that two blocks share or do not. This
// is for GPUs; host devices are tested with a few of these shapes.
TEST_F(Gemm, MatchesTheTwinForTheRowsOfALargerDecodeStep) {
  const bool all = device_->info().is_cuda;
  for (const std::int64_t outputs : {1, 2, 100, 1000, 4097}) {
    for (const std::int64_t in : {64, 192, 1088}) {
      if (!all && outputs * in > 100'000) continue;
      const std::int64_t t = pick(33, 64);
      const DType dtype = kDtypes[pick(1, 2)];
      const DType out = pick(0, 1) == 0 ? dtype : DType::f32;
      check(dtype, out, t, in, outputs, pick(0, 1) == 1, pick(0, 1) == 1, pick(0, 1) * 8);
    }
  }
  for (int round = 0; round < (all ? 30 : 3); ++round) {
    const DType dtype = kDtypes[pick(1, 2)];
    const DType out = pick(0, 1) == 0 ? dtype : DType::f32;
    check(dtype, out, pick(33, 64), 64 * pick(1, 24), pick(1, 700), pick(0, 1) == 1,
          pick(0, 1) == 1, pick(0, 1) * 8 * pick(1, 5));
  }
}

TEST_F(Gemm, MatchesTheTwinForTheRowsOfALargerDecodeStepAtEveryWidthOfABlock) {
  if (!device_->info().is_cuda) GTEST_SKIP() << "host devices have no blocks";
  for (const std::int64_t outputs : {8449, 13000, 30001, 34000}) {
    check(DType::bf16, DType::bf16, 33, 64, outputs, true, false);
    check(DType::f16, DType::f32, 47, 64, outputs, false, true, 8);
  }
  for (const std::int64_t outputs : {8448, 13000, 22016, 34000}) {  // sums are stored unchanged
    check(DType::bf16, DType::bf16, 64, 64, outputs, false, false);
    check(DType::f16, DType::f16, 35, 128, outputs, false, false, 8);
  }
  for (const std::int64_t outputs : {4096, 8446}) {  // two blocks add to a y of f32
    check(DType::bf16, DType::f32, 64, 1088, outputs, false, true);
    check(DType::bf16, DType::f32, 41, 1088, outputs, true, true);
  }
  check(DType::bf16, DType::bf16, 64, 4096, 301, false, true);
  check(DType::f16, DType::f16, 33, 4096, 100, true, true, 8);
}

// Whatever the device chooses must be right for every number of rows for which it is chosen.
TEST_F(Gemm, MatchesTheTwinAfterTuning) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const bool biased : {false, true}) {
      for (const bool accumulate : {false, true}) {
        const DType out = accumulate ? DType::f32 : dtype;
        const TestTensor x = tensor(dtype, {200, 192});
        const TestTensor bias = tensor(dtype, {40});
        const TestTensor y = tensor(out, {200, 40});
        const TestTensor first = tensor(dtype, {40, 192});
        const TestTensor second = tensor(dtype, {40, 192});
        std::vector<GemmArgs> like;
        for (const TestTensor* w : {&first, &second}) {
          like.push_back({x.on_device(), w->on_device(), biased ? bias.on_device() : TensorView(),
                          y.on_device(), accumulate});
        }
        const Status status = stream_->tune_gemm(like);
        ASSERT_TRUE(status.ok()) << status.message();
        for (const std::int64_t t : {1, 32, 33, 48, 49, 64, 65, 128, 129, 200}) {
          check(dtype, out, t, 192, 40, biased, accumulate);
        }
      }
    }
  }
}

TEST_F(Gemm, TunesForNoRowsAndNoProducts) {
  EXPECT_TRUE(stream_->tune_gemm({}).ok());
  const TestTensor w = tensor(DType::bf16, {64, 64});
  const TestTensor x = tensor(DType::bf16, {0, 64});
  const TestTensor y = tensor(DType::bf16, {0, 64});
  const GemmArgs none{x.on_device(), w.on_device(), {}, y.on_device()};
  EXPECT_TRUE(stream_->tune_gemm({&none, 1}).ok());
}

// Widths for which blocks have none, one or several groups.
TEST_F(Gemm, EndsInSwigluAsTheTwoOperationsDo) {
  for (const std::int64_t t : {0, 1, 7, 8, 9, 16, 31, 32, 33, 40, 57, 64}) {
    const DType dtype = t % 2 == 0 ? DType::bf16 : DType::f16;
    for (const std::int64_t ffn : {1, 6, 131, 700}) check_swiglu(dtype, t, 192, ffn, t % 2 * 8);
  }
  if (!device_->info().is_cuda) return;
  for (const std::int64_t t : {3, 24, 48, 64}) {
    check_swiglu(DType::bf16, t, 64, 17001, 0);
    check_swiglu(DType::f16, t, 64, 34000, 8);
    check_swiglu(DType::bf16, t, 4096, 11008, 0);
    check_swiglu(DType::f16, t, 512, 14336, 0);
  }
}

TEST_F(Gemm, EndsInSwigluForRandomShapes) {
  const bool all = device_->info().is_cuda;
  for (int round = 0; round < (all ? 60 : 3); ++round) {
    check_swiglu(kDtypes[pick(1, 2)], pick(1, 64), 64 * pick(1, 24), pick(1, all ? 9000 : 200),
                 pick(0, 1) * 8 * pick(1, 5));
  }
}

TEST_F(Gemm, EndsInSwigluWhereNoKernelForFewRowsDoes) {
  check_swiglu(DType::bf16, 65, 192, 131, 0);
  check_swiglu(DType::f32, 5, 64, 40, 0);
  check_swiglu(DType::bf16, 5, 70, 40, 0);
}

TEST_F(Gemm, SplitsWideOutputs) {
  for (const DType dtype : kDtypes) {
    check(dtype, dtype, 1, 129, 5003, false, false);
    check(dtype, dtype, 33, 129, 1003, false, false);
  }
}

}  // namespace
}  // namespace tandem
