// The sum of adapters against their deltas, each computed apart.
#include "engine/loader/adapter_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/lora_rows.h"
#include "engine/loader/adapter_layout.h"
#include "engine/loader/safetensors/safetensors.h"
#include "tests/support/small_model.h"
#include "tests/support/test_seed.h"

namespace tandem::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const ModelSpec kSpec = small_model(3);

struct Kind {
  std::int32_t rank = 4;
  std::vector<std::size_t> modules;  // rows of the table
  bool has_bias = false;
};

std::size_t whole(Site site) {
  return kSpec.modules.first_of(site);
}

Adapter random_adapter(const Kind& kind, DType dtype, std::mt19937_64& random) {
  Adapter adapter;
  adapter.dtype = dtype;
  adapter.layers = AdapterLayers(kSpec.num_layers(), kSpec.modules.size());
  for (std::int64_t layer = 0; layer < kSpec.num_layers(); ++layer) {
    for (const std::size_t m : kind.modules) {
      if (module_out(kSpec, layer, m) == 0) continue;
      const bool is_whole = kSpec.modules[m].is_whole();
      append_matrix(adapter, kSpec, layer, m, is_whole ? kSpec.hidden_size : kind.rank,
                    kind.has_bias && !is_whole);
    }
  }
  EXPECT_TRUE(allocate_bytes(adapter).ok());
  std::memset(adapter.bytes.get(), 0, adapter.num_bytes);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const auto fill = [&](std::uint64_t offset, std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = uniform(random);
    convert(DType::f32, values.data(), dtype, adapter.bytes.get() + offset, values.size());
  };
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  for (std::int64_t layer = 0; layer < kSpec.num_layers(); ++layer) {
    for (std::size_t m = 0; m < kSpec.modules.size(); ++m) {
      const AdapterMatrix& matrix = adapter.layers[static_cast<std::size_t>(layer)][m];
      if (matrix.rank == 0) continue;
      fill(matrix.a_offset, matrix.rank * module_in(kSpec, layer, m));
      for (std::int64_t row = 0; row < module_out(kSpec, layer, m); ++row) {
        const auto at = [&](std::int64_t column) {
          return matrix.b_offset +
                 static_cast<std::uint64_t>((row * matrix.b_stride + column) * element);
        };
        fill(at(0), matrix.rank);
        if (matrix.has_bias) fill(at(matrix.b_stride - lora_group(dtype)), 1);
      }
    }
  }
  EXPECT_TRUE(set_digest(adapter).ok());
  return adapter;
}

std::vector<float> read(const Adapter& adapter, std::uint64_t offset, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  convert(adapter.dtype, adapter.bytes.get() + offset, DType::f32, values.data(), values.size());
  return values;
}

// B A x and the bias, or B itself where it is whole; zeros where the adapter has nothing.
std::vector<float> delta(const Adapter& adapter, std::int64_t layer, std::size_t m,
                         const std::vector<float>& x) {
  const AdapterMatrix& matrix = adapter.layers[static_cast<std::size_t>(layer)][m];
  const std::int64_t in = module_in(kSpec, layer, m);
  const std::int64_t out = module_out(kSpec, layer, m);
  const bool is_whole = kSpec.modules[m].is_whole();
  std::vector<float> result(static_cast<std::size_t>(is_whole ? out * kSpec.hidden_size : out));
  if (matrix.rank == 0) return result;
  const std::vector<float> a = read(adapter, matrix.a_offset, matrix.rank * in);
  const std::vector<float> b = read(adapter, matrix.b_offset, out * matrix.b_stride);
  std::vector<float> v(static_cast<std::size_t>(matrix.rank));
  for (std::size_t i = 0; i < a.size(); ++i) {
    v[i / static_cast<std::size_t>(in)] += a[i] * x[i % static_cast<std::size_t>(in)];
  }
  for (std::int64_t row = 0; row < out; ++row) {
    const float* const of_row = b.data() + row * matrix.b_stride;
    if (is_whole) {
      std::copy_n(of_row, matrix.rank, result.begin() + row * matrix.rank);
      continue;
    }
    float& y = result[static_cast<std::size_t>(row)];
    for (std::size_t r = 0; r < v.size(); ++r) y += of_row[r] * v[r];
    if (matrix.has_bias) y += of_row[matrix.b_stride - lora_group(adapter.dtype)];
  }
  return result;
}

Adapter sum_of(const std::vector<SummedAdapter>& parts) {
  Result<Adapter> layout = sum_layout(kSpec, parts, 64);
  EXPECT_TRUE(layout.ok()) << layout.status().message();
  Adapter sum = std::move(layout).value();
  EXPECT_TRUE(allocate_bytes(sum).ok());
  std::memset(sum.bytes.get(), 0xff, sum.num_bytes);  // NaN, as the memory holds anything
  std::vector<const std::byte*> bytes;
  for (const SummedAdapter& part : parts) bytes.push_back(part.adapter->bytes.get());
  for (std::size_t layer = 0; layer < sum.layers.size(); ++layer) {
    sum_layer(kSpec, sum, parts, bytes, layer, sum.bytes.get());
  }
  return sum;
}

class AdapterSum : public ::testing::TestWithParam<DType> {};

TEST_P(AdapterSum, AddsTheScaledDeltasOfItsParts) {
  std::mt19937_64 random(test_seed());
  const auto row = [](const char* name) { return kSpec.modules.row(name); };
  const Adapter plain = random_adapter({4, {row("q_proj"), row("down_proj")}}, GetParam(), random);
  const Adapter odd = random_adapter({3, {row("q_proj"), row("v_proj")}, true}, GetParam(), random);
  const Adapter biased =
      random_adapter({16, {row("q_proj"), row("up_proj")}, true}, GetParam(), random);
  const Adapter outer =
      random_adapter({5, {whole(Site::whole_head), row("embed_tokens")}}, GetParam(), random);
  const std::vector<SummedAdapter> parts = {
      {"plain", &plain, -0.75F}, {"odd", &odd, 1}, {"biased", &biased, 2.5F}, {"outer", &outer, 1}};
  const Adapter sum = sum_of(parts);
  EXPECT_EQ(sum.max_rank, 23);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const float tolerance = GetParam() == DType::f32   ? 1e-5F
                          : GetParam() == DType::f16 ? 2e-3F
                                                     : 1e-2F;
  for (std::int64_t layer = 0; layer < kSpec.num_layers(); ++layer) {
    for (std::size_t m = 0; m < kSpec.modules.size(); ++m) {
      if (module_out(kSpec, layer, m) == 0) continue;
      std::vector<float> x(static_cast<std::size_t>(module_in(kSpec, layer, m)));
      for (float& value : x) value = uniform(random);
      const std::vector<float> got = delta(sum, layer, m, x);
      std::vector<float> expected(got.size());
      for (const SummedAdapter& part : parts) {
        const std::vector<float> one = delta(*part.adapter, layer, m, x);
        for (std::size_t i = 0; i < one.size(); ++i) expected[i] += part.scale * one[i];
      }
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], expected[i], tolerance * (10 + std::abs(expected[i])))
            << kSpec.modules[m].path << " of layer " << layer << ", row " << i;
      }
    }
  }
  for (const AdapterMatrix& matrix : sum.layers.all()) {
    if (matrix.rank == 0) continue;
    const std::vector<float> first = read(sum, matrix.b_offset, matrix.b_stride);
    for (std::int64_t i = matrix.rank; i < matrix.b_stride; ++i) {
      const bool is_bias = matrix.has_bias && i == matrix.b_stride - lora_group(GetParam());
      if (is_bias) continue;
      ASSERT_EQ(first[static_cast<std::size_t>(i)], 0) << "columns past the rank";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, AdapterSum, ::testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& param) { return std::string(to_string(param.param)); });

class AdapterSumLayout : public ::testing::Test {
 protected:
  Adapter make(const Kind& kind) { return random_adapter(kind, DType::f32, random_); }
  Status refusal(const Adapter& a, const Adapter& b, float scale = 1) {
    const std::vector<SummedAdapter> parts = {{"first", &a, scale}, {"second", &b}};
    return sum_layout(kSpec, parts, 16).status();
  }
  std::mt19937_64 random_{test_seed()};
  const std::size_t q_ = kSpec.modules.row("q_proj");
  const Adapter lora_ = make({4, {q_}});
};

TEST_F(AdapterSumLayout, HasADigestForEachChoiceOfPartsAndScales) {
  const Adapter other = make({4, {q_}});
  std::vector<std::string> digests = {lora_.digest, other.digest};
  for (const float scale : {1.0F, 0.5F, -0.5F}) {
    const std::vector<SummedAdapter> both = {{"a", &lora_}, {"b", &other, scale}};
    digests.push_back(sum_layout(kSpec, both, 16)->digest);
    const std::vector<SummedAdapter> alone = {{"a", &lora_, scale}};
    digests.push_back(sum_layout(kSpec, alone, 16)->digest);
  }
  std::ranges::sort(digests);
  EXPECT_EQ(std::ranges::adjacent_find(digests), digests.end());
  EXPECT_EQ(digests.front().size(), 32U);
}

TEST_F(AdapterSumLayout, RefusesWhatHasNoSumAndNamesBoth) {
  const auto both_and = [](const char* what) {
    return AllOf(HasSubstr("'first' and 'second'"), HasSubstr(what));
  };
  const Adapter head = make({4, {whole(Site::whole_head), q_}});
  const Adapter adds = make({4, {kSpec.modules.row("lm_head")}});
  EXPECT_THAT(refusal(head, head).message(), both_and("both replace lm_head"));
  EXPECT_THAT(refusal(head, adds).message(), both_and("the first replaces lm_head"));
  EXPECT_THAT(refusal(adds, head).message(), HasSubstr("'second' and 'first'"));
  EXPECT_TRUE(refusal(head, lora_).ok());
  EXPECT_THAT(refusal(head, lora_, 0.5F).message(),
              HasSubstr("'first' replaces lm_head, so its scale can only be 1, not 0.5"));
  const Adapter projection = make({4, {whole(Site::whole_qkv)}});
  EXPECT_THAT(refusal(projection, lora_).message(),
              both_and("the first replaces self_attn.q_proj"));
  const Adapter norms = make({1, {whole(Site::attention_norm)}});
  EXPECT_THAT(refusal(norms, norms).message(), both_and("both replace input_layernorm"));
  EXPECT_TRUE(refusal(norms, lora_).ok());
  EXPECT_TRUE(refusal(norms, head).ok());
  Adapter activated = make({4, {q_}});
  activated.invocation = {7};
  EXPECT_THAT(refusal(activated, lora_).message(), both_and("activated LoRA"));
  EXPECT_THAT(refusal(lora_, activated).message(), HasSubstr("'second' and 'first'"));
  const Adapter big = make({13, {q_}});
  EXPECT_THAT(refusal(big, lora_).message(), both_and("add up to 17"));
}

TEST_F(AdapterSumLayout, KeepsTheInvocationOfOneAlone) {
  Adapter activated = make({4, {q_}});
  activated.invocation = {7, 8};
  const std::vector<SummedAdapter> alone = {{"a", &activated, 0.5F}};
  EXPECT_EQ(sum_layout(kSpec, alone, 16)->invocation, activated.invocation);
}

}  // namespace
}  // namespace tandem::test
