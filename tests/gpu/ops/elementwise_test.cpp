#include <fmt/format.h>

#include <numeric>

#include "tests/gpu/ops/ops_fixture.h"

namespace tandem {
namespace {

class Elementwise : public OpsTest {
 protected:
  std::vector<std::int32_t> indices(std::int64_t count, std::int64_t below) {
    std::vector<std::int32_t> result(static_cast<std::size_t>(count));
    for (std::int32_t& index : result) index = static_cast<std::int32_t>(pick(0, below - 1));
    return result;
  }
};

TEST_F(Elementwise, EmbedCopiesTheRowsOfTheIds) {
  for (int round = 0; round < 20; ++round) {
    const DType dtype = kDtypes[round % 3];
    const DType out_dtype = round % 2 == 0 ? dtype : DType::f32;
    const std::int64_t t = pick(0, 50);
    const std::int64_t hidden = pick(1, 300);
    const TestTensor table = tensor(dtype, {97, hidden});
    const auto ids = array(indices(t, 97));
    const TestTensor out = tensor(out_dtype, {t, hidden});
    reference::embed({table.host(), ids.host(), out.host()});
    stream_->embed({table.on_device(), ids.on_device(), out.on_device()});
    expect_same(out, fmt::format("T {} hidden {}", t, hidden), {0, 0});
  }
}

TEST_F(Elementwise, RmsNormMatchesTheTwinForRowsAndForHeads) {
  for (int round = 0; round < 40; ++round) {
    const DType dtype = kDtypes[round % 3];
    const DType x_dtype = pick(0, 1) == 0 ? dtype : DType::f32;
    const DType out_dtype = pick(0, 1) == 0 ? dtype : DType::f32;
    const std::int64_t t = pick(0, 40);
    const std::int64_t n = pick(1, 200);
    const bool per_head = pick(0, 1) == 1;
    const std::int64_t heads = per_head ? pick(1, 5) : 1;
    const TestTensor x = tensor(x_dtype, {t, heads * n}, 2, pick(0, 1) * 7);
    const TestTensor weight = tensor(dtype, {n});
    const TestTensor out = tensor(out_dtype, {t, heads * n});
    const auto view = [&](const TensorView& v) { return per_head ? v.split_cols(heads) : v; };
    reference::rms_norm({view(x.host()), weight.host(), 1e-5F, view(out.host())});
    stream_->rms_norm({view(x.on_device()), weight.on_device(), 1e-5F, view(out.on_device())});
    expect_same(out, fmt::format("T {} heads {} n {}", t, heads, n));
  }
}

TEST_F(Elementwise, RmsNormWorksInPlace) {
  const TestTensor x = tensor(DType::bf16, {9, 3 * 50});
  const TestTensor weight = tensor(DType::bf16, {50});
  reference::rms_norm({x.host().split_cols(3), weight.host(), 1e-6F, x.host().split_cols(3)});
  stream_->rms_norm(
      {x.on_device().split_cols(3), weight.on_device(), 1e-6F, x.on_device().split_cols(3)});
  expect_same(x, "in place");
}

TEST_F(Elementwise, RopeTurnsTheHeadsOfAFusedProjection) {
  for (int round = 0; round < 30; ++round) {
    const DType dtype = kDtypes[round % 3];
    const std::int64_t t = pick(0, 40);
    const std::int64_t heads = pick(1, 7);
    const std::int64_t d = 2 * pick(1, 70);
    const TestTensor x = tensor(dtype, {t, heads * d}, 1, pick(0, 1) * 2 * d);
    const TestTensor cos_sin = tensor(DType::f32, {64, 2, d / 2});
    const auto positions = array(indices(t, 64));
    reference::rope({x.host().split_cols(heads), cos_sin.host(), positions.host()});
    stream_->rope({x.on_device().split_cols(heads), cos_sin.on_device(), positions.on_device()});
    expect_same(x, fmt::format("T {} heads {} d {}", t, heads, d));
  }
}

TEST_F(Elementwise, SwigluMatchesTheTwin) {
  for (int round = 0; round < 30; ++round) {
    const DType dtype = kDtypes[round % 3];
    const std::int64_t t = pick(0, 20);
    const std::int64_t ffn = round == 0 ? 5000 : pick(1, 400);
    const TestTensor gate_up = tensor(dtype, {t, 2 * ffn}, 8, pick(0, 1) * 3);
    const TestTensor out = tensor(dtype, {t, ffn});
    reference::swiglu({gate_up.host(), out.host()});
    stream_->swiglu({gate_up.on_device(), out.on_device()});
    expect_same(out, fmt::format("T {} ffn {}", t, ffn));
  }
}

TEST_F(Elementwise, GatherRowsCopiesThem) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const TestTensor x = tensor(dtype, {40, 33}, 1, 4);
    const auto rows = array(indices(17, 40));
    const TestTensor out = tensor(dtype, {17, 33});
    reference::gather_rows({x.host(), rows.host(), out.host()});
    stream_->gather_rows({x.on_device(), rows.on_device(), out.on_device()});
    expect_same(out, "gather", {0, 0});
  }
}

}  // namespace
}  // namespace tandem
