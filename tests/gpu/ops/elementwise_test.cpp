#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

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
  // A real model's width every third time, otherwise any, including odd ones.
  std::int64_t width(int round, std::int64_t below) {
    constexpr std::int64_t kReal[] = {128, 576, 4096, 11008, 16384, 20480};
    return round % 3 == 2 ? kReal[pick(0, 5)] : pick(1, below);
  }
};

TEST_F(Elementwise, EmbedCopiesTheRowsOfTheIds) {
  for (int round = 0; round < 20; ++round) {
    const DType dtype = kDtypes[round % 3];
    const DType out_dtype = round % 2 == 0 ? dtype : DType::f32;
    const std::int64_t t = pick(0, 50);
    const std::int64_t hidden = width(round / 3, 300);
    const TestTensor table = tensor(dtype, {97, hidden});
    const auto ids = array(indices(t, 97));
    const TestTensor out = tensor(out_dtype, {t, hidden});
    reference::embed({table.host(), ids.host(), out.host()});
    stream_->embed({table.on_device(), ids.on_device(), out.on_device()});
    expect_same(out, fmt::format("T {} hidden {}", t, hidden), {0, 0});
  }
}

TEST_F(Elementwise, EmbedOfAPartOfTheVocabularyIsZeroForTheOthers) {
  for (const std::int32_t first : {0, 32, 64}) {
    const TestTensor table = tensor(DType::bf16, {first == 64 ? 33 : 32, 24});
    const auto ids = array(indices(40, 97));
    const TestTensor out = tensor(DType::f32, {40, 24});
    reference::embed({table.host(), ids.host(), out.host(), first, 97});
    stream_->embed({table.on_device(), ids.on_device(), out.on_device(), first, 97});
    expect_same(out, fmt::format("from {}", first), {0, 0});
  }
}

TEST_F(Elementwise, EmbedMultipliesByItsScale) {
  for (const DType dtype : kDtypes) {
    const TestTensor table = tensor(dtype, {97, 48});
    const auto ids = array(indices(11, 97));
    const TestTensor out = tensor(DType::f32, {11, 48});
    const auto args = [&](const TestTensor& from, const auto& view, const std::int32_t* which) {
      EmbedArgs result{view(from), which, view(out)};
      result.scale = 6.9282F;
      return result;
    };
    const auto host = [](const TestTensor& tensor) { return tensor.host(); };
    const auto on_device = [](const TestTensor& tensor) { return tensor.on_device(); };
    reference::embed(args(table, host, ids.host()));
    stream_->embed(args(table, on_device, ids.on_device()));
    expect_same(out, "scaled", {0, 1e-6F});
  }
}

TEST_F(Elementwise, RmsNormMatchesTheTwinForRowsAndForHeads) {
  for (int round = 0; round < 40; ++round) {
    const DType dtype = kDtypes[round % 3];
    const DType x_dtype = pick(0, 1) == 0 ? dtype : DType::f32;
    const DType out_dtype = pick(0, 1) == 0 ? dtype : DType::f32;
    const std::int64_t t = pick(0, 40);
    const std::int64_t n = width(round / 3, 200);
    const bool per_head = pick(0, 1) == 1;
    const std::int64_t heads = per_head ? pick(1, 5) : 1;
    const TestTensor x = tensor(x_dtype, {t, heads * n}, 2, pick(0, 1) * (round % 2 == 0 ? 7 : 8));
    const TestTensor weight = tensor(DType::f32, {n});
    const TestTensor out = tensor(out_dtype, {t, heads * n});
    const auto view = [&](const TensorView& v) { return per_head ? v.split_cols(heads) : v; };
    reference::rms_norm({view(x.host()), weight.host(), 1e-5F, view(out.host())});
    stream_->rms_norm({view(x.on_device()), weight.on_device(), 1e-5F, view(out.on_device())});
    expect_same(out, fmt::format("T {} heads {} n {}", t, heads, n));
  }
}

TEST_F(Elementwise, RmsNormTakesTheMeanOffIfItIsCentred) {
  for (int round = 0; round < 24; ++round) {
    const std::int64_t t = pick(1, 20);
    const std::int64_t n = width(round, 300);
    const TestTensor x = tensor(DType::f32, {t, n}, 2, round % 2 == 0 ? 7 : 8);
    const TestTensor weight = tensor(DType::f32, {n});
    const TestTensor out = tensor(kDtypes[round % 3], {t, n});
    reference::rms_norm({x.host(), weight.host(), 1e-2F, out.host(), true});
    stream_->rms_norm({x.on_device(), weight.on_device(), 1e-2F, out.on_device(), true});
    expect_same(out, fmt::format("T {} n {}", t, n));
  }
}

TEST_F(Elementwise, RmsNormNeedsNoWeightAndMayReadOtherHeads) {
  for (const std::int64_t d : {50, 64, 512}) {
    for (const DType dtype : kDtypes) {
      const TestTensor x = tensor(dtype, {9, 6 * d});
      const auto heads = [&](const TensorView& all, std::int64_t first) {
        return all.slice_cols(first * d, 3 * d).split_cols(3);
      };
      reference::rms_norm({heads(x.host(), 0), {}, 1e-6F, heads(x.host(), 3)});
      stream_->rms_norm({heads(x.on_device(), 0), {}, 1e-6F, heads(x.on_device(), 3)});
      expect_same(x, fmt::format("d {}", d));
    }
  }
}

TEST_F(Elementwise, RmsNormWorksInPlace) {
  const TestTensor x = tensor(DType::bf16, {9, 3 * 50});
  const TestTensor weight = tensor(DType::f32, {50});
  reference::rms_norm({x.host().split_cols(3), weight.host(), 1e-6F, x.host().split_cols(3)});
  stream_->rms_norm(
      {x.on_device().split_cols(3), weight.on_device(), 1e-6F, x.on_device().split_cols(3)});
  expect_same(x, "in place");
}

TEST_F(Elementwise, SumSquaresAddsUpEachRow) {
  for (int round = 0; round < 24; ++round) {
    const std::int64_t t = pick(0, 40);
    const std::int64_t n = width(round / 3, 300);
    const TestTensor x = tensor(kDtypes[round % 3], {t, n}, 2, round % 2 == 0 ? 7 : 8);
    const TestTensor sums = tensor(DType::f32, {t, 2});
    reference::sum_squares({x.host(), sums.host().slice_cols(1, 1)});
    stream_->sum_squares({x.on_device(), sums.on_device().slice_cols(1, 1)});
    expect_same(sums, fmt::format("T {} n {}", t, n));
  }
}

TEST_F(Elementwise, RmsNormOfPartsOfARowIsThatOfTheRowIfItsSumOfSquaresIsGiven) {
  for (int round = 0; round < 24; ++round) {
    const DType dtype = kDtypes[round % 3];
    const std::int64_t t = pick(0, 40);
    const std::int64_t n = width(round / 3, 300);
    const std::int64_t first = pick(1, n);
    const TestTensor x = tensor(dtype, {t, n + first}, 2);
    const TestTensor weight = tensor(DType::f32, {n + first});
    const TestTensor out = tensor(dtype, {t, n + first});
    TestTensor squares = tensor(DType::f32, {t, 2});
    reference::sum_squares({x.host(), squares.host().slice_cols(1, 1)});
    squares.upload(*stream_);
    reference::rms_norm({x.host(), weight.host(), 1e-5F, out.host()});
    for (const auto& [begin, count] : {std::pair(std::int64_t{0}, first), std::pair(first, n)}) {
      RmsNormArgs args{x.on_device().slice_cols(begin, count),
                       weight.on_device().slice_cols(begin, count), 1e-5F,
                       out.on_device().slice_cols(begin, count)};
      args.squares = squares.on_device().slice_cols(1, 1);
      args.width = n + first;
      stream_->rms_norm(args);
    }
    expect_same(out, fmt::format("T {} n {} and {}", t, first, n));
  }
}

TEST_F(Elementwise, AddNormAddsASumOrItsNormAndNormsTheResidualOrCopiesIt) {
  for (int round = 0; round < 48; ++round) {
    const std::int64_t t = pick(0, 40);
    const std::int64_t n = width(round / 3, 300);
    const std::int64_t gap = round % 2 == 0 ? 7 : 8;
    const TestTensor sum = tensor(DType::f32, {t, n}, 2, gap);
    const TestTensor residual = tensor(DType::f32, {t, n}, 2);
    const TestTensor sum_weight = tensor(DType::f32, {n});
    const TestTensor weight = tensor(DType::f32, {n});
    const TestTensor out = tensor(kDtypes[round % 3], {t, n}, 1, gap);
    const bool adds = pick(0, 3) > 0;
    const bool norms_sum = pick(0, 1) == 1;
    const bool norms = pick(0, 1) == 1;
    const bool wants_out = pick(0, 3) > 0;
    const auto args = [&](const auto& view) {
      AddNormArgs result{};
      if (adds) result.sum = view(sum);
      if (norms_sum) result.sum_weight = view(sum_weight);
      result.residual = view(residual);
      if (norms) result.weight = view(weight);
      result.eps = 1e-5F;
      if (wants_out) result.out = view(out);
      if (adds && round % 4 == 0) result.scale = 0.7F;
      return result;
    };
    reference::add_norm(args([](const TestTensor& tensor) { return tensor.host(); }));
    stream_->add_norm(args([](const TestTensor& tensor) { return tensor.on_device(); }));
    const std::string what =
        fmt::format("T {} n {} adds {} norms the sum {} norms {}", t, n, adds, norms_sum, norms);
    expect_same(residual, what);
    expect_same(out, what);
  }
}

TEST_F(Elementwise, RopeAppendRotatesAPartOfAHeadOrNeighboursOrNothing) {
  for (int round = 0; round < 36; ++round) {
    const DType dtype = kDtypes[round % 3];
    const std::int64_t t = pick(1, 20);
    const std::int64_t heads = 2 * pick(1, 3);
    const std::int64_t d = round % 2 == 0 ? 128 : 2 * pick(2, 40);
    const bool rotates = round % 6 != 5;
    const std::int64_t pairs = round % 4 < 2 ? pick(1, d / 2) : d / 2;
    const TestTensor qkv = tensor(dtype, {t, (heads + 4) * d});
    const TestTensor cos_sin = tensor(DType::f32, {64, 2, pairs});
    const TestTensor cache = tensor(dtype, {t, 4 * 3 * d});
    const auto positions = array(indices(t, 64));
    std::vector<std::int32_t> slots(static_cast<std::size_t>(t));
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<std::int32_t>(3 * i + 1);
    const auto slot_array = array(slots);
    const bool interleaved = pick(0, 1) == 1;
    const auto args = [&](const TensorView& all, const TensorView& table, const TensorView& pages,
                          const std::int32_t* at, const std::int32_t* where) {
      RopeAppendArgs result = append_of(all, heads, 2, rotates ? table : TensorView(), at, where,
                                        {pages.data, pages.stride[0], 3});
      result.interleaved = interleaved;
      return result;
    };
    reference::rope_append(
        args(qkv.host(), cos_sin.host(), cache.host(), positions.host(), slot_array.host()));
    stream_->rope_append(args(qkv.on_device(), cos_sin.on_device(), cache.on_device(),
                              positions.on_device(), slot_array.on_device()));
    const std::string what = fmt::format("d {} pairs {} interleaved {}", d, pairs, interleaved);
    expect_same(qkv, what);
    expect_same(cache, what);
  }
}

TEST_F(Elementwise, RotaryAnglesFollowTheLengthsOfTheRows) {
  for (int round = 0; round < 12; ++round) {
    const std::int64_t t = pick(1, 40);
    const std::int64_t pairs = pick(1, 70);
    const std::int64_t choices = pick(1, 6);
    const TestTensor frequencies = tensor(DType::f32, {choices, pairs});
    const TestTensor out = tensor(DType::f32, {t, 2, pairs});
    const auto positions = array(indices(t, 5000));
    const auto lengths = array(indices(t, 20));
    reference::rotary_angles(
        {frequencies.host(), positions.host(), lengths.host(), 7, 1.25F, out.host()});
    stream_->rotary_angles({frequencies.on_device(), positions.on_device(), lengths.on_device(), 7,
                            1.25F, out.on_device()});
    expect_same(out, fmt::format("T {} pairs {} choices {}", t, pairs, choices), {1e-5F, 0});
  }
}

TEST_F(Elementwise, RopeAppendTakesAnglesOfItsRowsAndScalesQueries) {
  for (int round = 0; round < 24; ++round) {
    const DType dtype = kDtypes[round % 3];
    const std::int64_t t = pick(1, 20);
    const std::int64_t d = round % 2 == 0 ? 128 : 2 * pick(2, 40);
    const bool of_rows = round % 4 < 2;
    const bool rotates = of_rows || round % 8 < 6;
    const std::int64_t pairs = pick(0, 1) == 0 ? d / 2 : pick(1, d / 2);
    const TestTensor qkv = tensor(dtype, {t, 8 * d});
    const TestTensor cos_sin = tensor(DType::f32, {of_rows ? t : 64, 2, pairs});
    const TestTensor scales = tensor(DType::f32, {64});
    const TestTensor cache = tensor(dtype, {t, 4 * 3 * d});
    const auto positions = array(indices(t, 64));
    std::vector<std::int32_t> slots(static_cast<std::size_t>(t));
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<std::int32_t>(3 * i + 1);
    const auto slot_array = array(slots);
    const auto args = [&](const auto& view, const std::int32_t* at, const std::int32_t* where) {
      const TensorView pages = view(cache);
      RopeAppendArgs result =
          append_of(view(qkv), 4, 2, rotates ? view(cos_sin) : TensorView(), of_rows ? nullptr : at,
                    where, {pages.data, pages.stride[0], 3});
      if (!of_rows) result.q_scale = view(scales);
      return result;
    };
    reference::rope_append(args([](const TestTensor& tensor) { return tensor.host(); },
                                positions.host(), slot_array.host()));
    stream_->rope_append(args([](const TestTensor& tensor) { return tensor.on_device(); },
                              positions.on_device(), slot_array.on_device()));
    const std::string what = fmt::format("d {} pairs {} of rows {}", d, pairs, of_rows);
    expect_same(qkv, what);
    expect_same(cache, what);
  }
}

TEST_F(Elementwise, RopeAppendTurnsAFusedProjectionAndWritesItsKeysAndValues) {
  for (int round = 0; round < 30; ++round) {
    const DType dtype = kDtypes[round % 3];
    const std::int64_t t = pick(0, 40);
    const std::int64_t kv_heads = pick(1, 4);
    const std::int64_t heads = kv_heads * pick(1, 3);
    constexpr std::int64_t kRealHeads[] = {64, 96, 128, 256};
    const std::int64_t d = round % 2 == 0 ? kRealHeads[pick(0, 3)] : 2 * pick(1, 70);
    const auto page_tokens = static_cast<std::int32_t>(pick(1, 20));
    const std::int64_t num_pages = t / page_tokens + 2;
    const TestTensor qkv = tensor(dtype, {t, (heads + 2 * kv_heads) * d}, 1, pick(0, 1) * 2 * d);
    const TestTensor cos_sin = tensor(DType::f32, {64, 2, d / 2});
    const TestTensor cache = tensor(dtype, {num_pages, 2 * kv_heads * page_tokens * d + 24});
    const auto positions = array(indices(t, 64));
    std::vector<std::int32_t> slots(static_cast<std::size_t>(num_pages * page_tokens));
    std::iota(slots.begin(), slots.end(), 0);
    std::shuffle(slots.begin(), slots.end(), random_);
    slots.resize(static_cast<std::size_t>(t));
    if (t > 3) slots[3] = -1;  // padding
    const auto slot_array = array(slots);
    const auto args = [&](const TensorView& all, const TensorView& table, const TensorView& pages,
                          const std::int32_t* where, const std::int32_t* at) {
      return append_of(all, heads, kv_heads, table, at, where,
                       {pages.data, pages.stride[0], page_tokens});
    };
    reference::rope_append(
        args(qkv.host(), cos_sin.host(), cache.host(), slot_array.host(), positions.host()));
    stream_->rope_append(args(qkv.on_device(), cos_sin.on_device(), cache.on_device(),
                              slot_array.on_device(), positions.on_device()));
    const std::string what = fmt::format("T {} heads {}/{} d {}", t, heads, kv_heads, d);
    expect_same(qkv, what);
    expect_same(cache, what);
  }
}

TEST_F(Elementwise, RopeAppendWithoutKeysRotatesQueriesAlone) {
  for (int round = 0; round < 12; ++round) {
    const DType dtype = kDtypes[round % 3];
    const std::int64_t t = pick(1, 20);
    const std::int64_t d = round % 2 == 0 ? 128 : 2 * pick(2, 40);
    const std::int64_t pairs = round % 4 < 2 ? d / 2 : pick(1, d / 2);
    const TestTensor q = tensor(dtype, {t, 3 * d});
    const TestTensor cos_sin = tensor(DType::f32, {64, 2, pairs});
    const auto positions = array(indices(t, 64));
    const auto slots = array(indices(t, 64));
    reference::rope_append({q.host().split_cols(3),
                            {},
                            {},
                            cos_sin.host(),
                            positions.host(),
                            slots.host(),
                            {nullptr, 0, 4}});
    stream_->rope_append({q.on_device().split_cols(3),
                          {},
                          {},
                          cos_sin.on_device(),
                          positions.on_device(),
                          slots.on_device(),
                          {nullptr, 0, 4}});
    expect_same(q, fmt::format("T {} d {} pairs {}", t, d, pairs));
  }
}

TEST_F(Elementwise, ResolveTokensPutsThePreviousStepsTokensInTheirPlaces) {
  std::vector<SampledToken> sampled(5);
  for (SampledToken& each : sampled) each.token = static_cast<std::int32_t>(pick(0, 1000));
  const auto previous = array(sampled);
  const auto values = array(std::vector<std::int32_t>{7, -1, 0, -5, -3, -3});
  stream_->resolve_tokens({values.on_device(), 6, previous.on_device()});
  const std::vector<std::int32_t> expected{
      7, sampled[0].token, 0, sampled[4].token, sampled[2].token, sampled[2].token};
  EXPECT_EQ(values.download(*stream_), expected);
}

TEST_F(Elementwise, SwigluMatchesTheTwin) {
  for (int round = 0; round < 30; ++round) {
    const DType dtype = kDtypes[round % 3];
    const std::int64_t t = pick(0, 20);
    const std::int64_t ffn = width(round / 3, 400);
    const TestTensor gate_up =
        tensor(dtype, {t, 2 * ffn}, 8, pick(0, 1) * (round % 2 == 0 ? 3 : 8));
    const TestTensor out = tensor(dtype, {t, ffn});
    const Activation activation = pick(0, 1) == 0 ? Activation::silu : Activation::gelu_tanh;
    reference::swiglu({gate_up.host(), out.host(), activation});
    stream_->swiglu({gate_up.on_device(), out.on_device(), activation});
    expect_same(out, fmt::format("T {} ffn {} {}", t, ffn, to_string(activation)));
  }
}

TEST_F(Elementwise, SwigluTakesTheUpHalfFromElsewhereAndRoundsAProductOfFloats) {
  for (int round = 0; round < 30; ++round) {
    const DType dtype = kDtypes[round % 3];
    const DType from = round % 2 == 0 ? DType::f32 : dtype;
    const std::int64_t t = pick(0, 20);
    const std::int64_t ffn = width(round / 3, 400);
    const std::int64_t wide = ffn + pick(0, 1) * (round % 4 < 2 ? 3 : 8);
    const TestTensor gate = tensor(from, {t, ffn}, 8);
    const TestTensor ups = tensor(from, {t, 2 * wide}, 8);
    const TestTensor out = tensor(dtype, {t, ffn});
    reference::swiglu(
        {gate.host(), out.host(), Activation::gelu_tanh, ups.host().slice_cols(wide, ffn)});
    stream_->swiglu({gate.on_device(), out.on_device(), Activation::gelu_tanh,
                     ups.on_device().slice_cols(wide, ffn)});
    expect_same(out, fmt::format("T {} ffn {} of {}", t, ffn, to_string(from)));
  }
}

TEST_F(Elementwise, ScaleLogitsMultipliesAndCaps) {
  for (const auto& [multiplier, softcap] : {std::pair(0.625F, 0.0F), {1.0F, 30.0F}, {2.0F, 5.0F}}) {
    const TestTensor logits = tensor(DType::f32, {7, 1003}, 40, 5);
    reference::scale_logits({logits.host(), multiplier, softcap});
    stream_->scale_logits({logits.on_device(), multiplier, softcap});
    expect_same(logits, fmt::format("times {}, capped at {}", multiplier, softcap));
  }
}

TEST_F(Elementwise, GatherRowsCopiesThem) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t columns : {33, 4096}) {
      const TestTensor x = tensor(dtype, {40, columns}, 1, 8);
      const auto rows = array(indices(17, 40));
      const TestTensor out = tensor(dtype, {17, columns});
      reference::gather_rows({x.host(), rows.host(), out.host()});
      stream_->gather_rows({x.on_device(), rows.on_device(), out.on_device()});
      expect_same(out, "gather", {0, 0});
    }
  }
}

}  // namespace
}  // namespace tandem
