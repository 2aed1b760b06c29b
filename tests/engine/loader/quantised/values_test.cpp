// Packed matrices with the floats that their libraries make of them (data/quant/values; FP8 with
// every code but the two NaNs), equal to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "engine/loader/quantised/packed_form.h"
#include "engine/loader/quantised/packed_matrix.h"
#include "engine/loader/safetensors/safetensors.h"
#include "tests/gpu/reference/packed_twin.h"
#include "tests/support/packed_memory.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

ModuleScheme words(int bits, ScalesBy scales, std::int64_t group = 0, bool symmetric = true,
                   bool needs_order = false) {
  return {.packing = Packing::words,
          .bits = bits,
          .scales = scales,
          .group = group,
          .symmetric = symmetric,
          .needs_order = needs_order};
}
ModuleScheme gptq(int bits, std::int64_t group, int version, bool needs_order = false) {
  return {.packing = Packing::gptq,
          .bits = bits,
          .group = group,
          .needs_order = needs_order,
          .takes_1_off_zeros = version == 1};
}
ModuleScheme fp8(ScalesBy scales) {
  return {.packing = Packing::fp8, .scales = scales, .row_block = 128, .col_block = 128};
}
ModuleScheme bnb(std::string_view codebook) {
  return {.packing = Packing::bnb_4bit, .codebook = codebook};
}

struct Values {
  const char* name;
  ModuleScheme scheme;
};
const Values kValues[] = {
    {"awq_g64", {.packing = Packing::awq, .group = 64}},
    {"awq_g128", {.packing = Packing::awq, .group = 128}},
    {"bnb_fp4", bnb("fp4")},
    {"bnb_fp4_double", bnb("fp4")},
    {"bnb_int8", {.packing = Packing::bnb_int8}},
    {"bnb_nf4", bnb("nf4")},
    {"bnb_nf4_double", bnb("nf4")},
    {"ct_w4_actorder", words(4, ScalesBy::group, 32, true, true)},
    {"ct_w4_channel_ragged", words(4, ScalesBy::channel)},
    {"ct_w4_g32", words(4, ScalesBy::group, 32)},
    {"ct_w4_g32_asym", words(4, ScalesBy::group, 32, false)},
    {"ct_w8_channel_ragged", words(8, ScalesBy::channel)},
    {"fp8_block_ragged", fp8(ScalesBy::block)},
    {"fp8_channel", fp8(ScalesBy::channel)},
    {"fp8_e4m3", fp8(ScalesBy::tensor)},
    {"fp8_tensor", fp8(ScalesBy::tensor)},
    {"gptq_w4_g32_v1", gptq(4, 32, 1)},
    {"gptq_w4_g32_v1_act", gptq(4, 32, 1, true)},
    {"gptq_w4_g32_v2", gptq(4, 32, 2)},
    {"gptq_w4_short_group", gptq(4, 128, 1)},
    {"gptq_w8_g32_v1", gptq(8, 32, 1)},
};

// The tensors of a file, whose names are those of a module without its name.
ModuleTensors tensors_of(const SafetensorsFile& file) {
  return {"", [&file](std::string_view name) -> std::optional<StoredTensor> {
            const TensorInfo* const info = file.find(name.substr(1));
            if (info == nullptr) return std::nullopt;
            return StoredTensor{info->type_name, info->shape, file.bytes(*info)};
          }};
}

// [first, first + count)
std::pair<std::int64_t, std::int64_t> pick_rows(std::mt19937_64& random, std::int64_t rows) {
  const auto below = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  const std::int64_t first = below(rows);
  return {first, 1 + below(rows - first)};
}

// The floats of the matrix and of its form agree to the bit, but for a factor, which is multiplied
// in another order.
void expect_kept(const QuantisedMatrix& matrix) {
  const std::optional<PackedForm> packed = packed_form(matrix);
  ASSERT_TRUE(packed.has_value());
  const auto [count, cols] =
      std::visit([](const auto& m) { return std::pair(m.rows, m.cols); }, matrix);
  const test::PackedMemory memory(*packed, count, cols);
  pack(matrix, memory.weight().packed);
  std::vector<float> want(static_cast<std::size_t>(cols));
  for (std::int64_t r = 0; r < count; ++r) {
    dequantise(matrix, r, 1, want.data());
    const std::vector<float> got = reference::row_of(memory.weight(), r);
    for (std::size_t c = 0; c < want.size(); ++c) {
      if (packed->form.scales.factor == 1) {
        ASSERT_EQ(got[c], want[c]) << "row " << r << ", column " << c;
      } else {
        ASSERT_FLOAT_EQ(got[c], want[c]) << "row " << r << ", column " << c;
      }
    }
  }
}

class QuantisedValues : public ::testing::TestWithParam<Values> {
 protected:
  void SetUp() override {
    auto file =
        SafetensorsFile::open(std::string("data/quant/values/") + GetParam().name + ".safetensors");
    ASSERT_TRUE(file.ok()) << file.status().message();
    file_.emplace(std::move(file).value());
    auto matrix = open_packed(GetParam().scheme, tensors_of(*file_));
    ASSERT_TRUE(matrix.ok()) << matrix.status().message();
    matrix_ = std::move(matrix).value();
    const TensorInfo* const info = file_->find("expected");
    ASSERT_NE(info, nullptr);
    ASSERT_THAT(info->shape, ::testing::ElementsAre(matrix_->rows(), matrix_->cols()));
    expected_ = StoredTensor{info->type_name, info->shape, file_->bytes(*info)};
  }
  void expect_rows(std::int64_t first, std::int64_t count) {
    const Result<QuantisedMatrix> rows = matrix_->read(first, count);
    ASSERT_TRUE(rows.ok()) << rows.status().message();
    std::vector<float> got(static_cast<std::size_t>(count * matrix_->cols()));
    dequantise(*rows, 0, count, got.data());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto want = expected_.at<float>(static_cast<std::size_t>(first * matrix_->cols()) + i);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want))
          << "rows from " << first << ", element " << i << ": " << got[i] << " and " << want;
    }
  }

  std::optional<SafetensorsFile> file_;
  std::unique_ptr<PackedMatrix> matrix_;
  StoredTensor expected_;
};

TEST_P(QuantisedValues, EqualTheExpectedFloatsToTheBit) {
  expect_rows(0, matrix_->rows());
}

// The blocks of these matrices of bitsandbytes run across rows.
TEST_P(QuantisedValues, AreKeptByTheFormOfDevicesUnlessBlocksRunAcrossRows) {
  std::mt19937_64 random(test_seed());
  const Result<QuantisedMatrix> one = matrix_->read(0, 1);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(packed_form(matrix_->without_rows()), packed_form(*one));
  if (GetParam().scheme.packing == Packing::bnb_4bit) {
    EXPECT_FALSE(packed_form(*one).has_value());
    return;
  }
  for (int round = 0; round < 10; ++round) {
    const auto [first, count] = pick_rows(random, matrix_->rows());
    const Result<QuantisedMatrix> rows = matrix_->read(first, count);
    ASSERT_TRUE(rows.ok());
    ASSERT_EQ(packed_form(*rows), packed_form(*one)) << "all rows have one form";
    expect_kept(*rows);
  }
}

TEST(PackedForms, AreNotMadeWhereTheyAreNoUse) {
  Fp8 fp8{.cols = 1024, .col_block = 128};
  EXPECT_TRUE(packed_form(QuantisedMatrix(fp8)).has_value());
  for (const std::int64_t block : {1, 8, 24, 40, 100}) {
    fp8.col_block = block;
    EXPECT_FALSE(packed_form(QuantisedMatrix(fp8)).has_value()) << block;
  }
  AffineGroups affine{.cols = 1024, .bits = 8, .group = 16};
  affine.scales.type = ScaleList::Type::f32;
  EXPECT_TRUE(packed_form(QuantisedMatrix(affine)).has_value());
  affine.group = 24;
  EXPECT_FALSE(packed_form(QuantisedMatrix(affine)).has_value());
}

TEST(Codebooks, WhoseBlocksDivideRowsAreKeptByTheFormOfDevices) {
  std::mt19937_64 random(test_seed());
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (const std::int64_t cols : {64, 192, 320, 704, 1024}) {
    for (const bool nested : {false, true}) {
      constexpr std::int64_t kRows = 40;
      Codebook4 m{.rows = kRows, .cols = cols, .begin = 24 * cols, .block = 64};
      for (float& value : m.codebook) value = uniform(random);
      for (std::int64_t i = 0; i < kRows * cols / 2; ++i) {
        m.codes.push_back(static_cast<std::uint8_t>(random()));
      }
      const std::int64_t first = m.begin / 64;
      const std::int64_t end = first + kRows * cols / 64;
      std::int64_t scales = end - first;
      if (nested) {
        m.nested_block = 256;
        m.offset = 0.25F;
        for (std::int64_t b = first; b < end; ++b) {
          m.scale_codes.push_back(static_cast<std::uint8_t>(random()));
        }
        for (int i = 0; i < 256; ++i) m.map.push_back(uniform(random));
        scales = (end + 255) / 256 - first / 256;
      }
      m.scales.bytes.resize(static_cast<std::size_t>(scales) * 4);
      for (std::int64_t i = 0; i < scales; ++i) {
        const float scale = uniform(random);
        std::memcpy(m.scales.bytes.data() + i * 4, &scale, 4);
      }
      expect_kept(QuantisedMatrix(m));
    }
  }
}

TEST_P(QuantisedValues, AreTheSameInAnyRunOfRows) {
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 20; ++i) {
    const auto first =
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(matrix_->rows()));
    const auto left = static_cast<std::uint64_t>(matrix_->rows() - first);
    expect_rows(first, 1 + static_cast<std::int64_t>(random() % left));
  }
}

INSTANTIATE_TEST_SUITE_P(Of, QuantisedValues, ::testing::ValuesIn(kValues),
                         [](const auto& param) { return std::string(param.param.name); });

// A tensor of a test, with its bytes.
struct Made {
  std::string type;
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;
};
class MadeTensors {
 public:
  void add(std::string name, Made tensor) {
    made_.emplace_back(std::move(name), std::move(tensor));
  }
  ModuleTensors of(std::string module) const {
    return {
        std::move(module), [this](std::string_view name) -> std::optional<StoredTensor> {
          for (const auto& [have, tensor] : made_) {
            if (have != name) continue;
            return StoredTensor{tensor.type, tensor.shape, std::as_bytes(std::span(tensor.bytes))};
          }
          return std::nullopt;
        }};
  }

 private:
  std::vector<std::pair<std::string, Made>> made_;
};

TEST(PackedMatrix, NeedsTheBytesOfItsRowsWhereTheyLieOneAfterAnother) {
  MadeTensors made;
  made.add("m.weight", {"F8_E4M3", {8, 16}, std::vector<std::uint8_t>(128)});
  made.add("m.weight_scale", {"F32", {}, std::vector<std::uint8_t>(4)});
  made.add("m.qweight", {"I32", {2, 8}, std::vector<std::uint8_t>(64)});
  made.add("m.qzeros", {"I32", {1, 1}, std::vector<std::uint8_t>(4)});
  made.add("m.scales", {"F32", {1, 8}, std::vector<std::uint8_t>(32)});
  const auto by_row = open_packed(fp8(ScalesBy::tensor), made.of("m"));
  const auto transposed = open_packed(gptq(4, 16, 2), made.of("m"));
  ASSERT_TRUE(by_row.ok() && transposed.ok());
  const std::vector<std::byte> tensor(128);
  const auto all = std::span(tensor);
  const auto some = (*by_row)->bytes_of_rows(all, 3, 2);
  EXPECT_EQ(some.data() - all.data(), 3 * 16);
  EXPECT_EQ(some.size(), 2U * 16);
  EXPECT_EQ((*by_row)->bytes_of_rows(all.first(4), 3, 2).size(), 4U) << "the scale of all rows";
  EXPECT_EQ((*transposed)->bytes_of_rows(all.first(64), 3, 2).size(), 64U);
}

TEST(Mxfp4, MultipliesTheSixteenValuesByPowersOfTwo) {
  MadeTensors made;
  // Two rows of 32: all codes twice in order, of two in a byte the first low; exponents 127, 126.
  Made blocks{"U8", {1, 2, 1, 16}, {}};
  for (int i = 0; i < 32; ++i) {
    const int code = 2 * (i % 8);
    blocks.bytes.push_back(static_cast<std::uint8_t>(code | (code + 1) << 4));
  }
  made.add("e_blocks", blocks);
  made.add("e_scales", {"U8", {1, 2, 1}, {128, 126}});
  const auto matrix = open_packed({.packing = Packing::mxfp4}, made.of("e"));
  ASSERT_TRUE(matrix.ok()) << matrix.status().message();
  std::vector<float> got(64);
  dequantise((*matrix)->read(0, 2).value(), 0, 2, got.data());
  const std::vector<float> half = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float scale = i < 32 ? 2.0F : 0.5F;
    const float want = (i % 16 < 8 ? 1.0F : -1.0F) * half[i % 8] * scale;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want)) << i;
  }
}

TEST(Mxfp4, RefusesTheExponentThatIsNotANumber) {
  MadeTensors made;
  made.add("e_blocks", {"U8", {1, 1, 16}, std::vector<std::uint8_t>(16)});
  made.add("e_scales", {"U8", {1, 1}, {255}});
  const auto matrix = open_packed({.packing = Packing::mxfp4}, made.of("e"));
  ASSERT_TRUE(matrix.ok());
  EXPECT_THAT((*matrix)->read(0, 1).status().message(), ::testing::HasSubstr("'_scales' holds"));
}

TEST(Fp8, RefusesTheTwoCodesThatAreNotNumbers) {
  for (const int wrong : {0, 0x7f, 0xff}) {
    MadeTensors made;
    Made codes{"F8_E4M3", {1, 256}, {}};
    for (int i = 0; i < 256; ++i) {
      codes.bytes.push_back(static_cast<std::uint8_t>((i & 0x7f) == 0x7f && i != wrong ? 0x7e : i));
    }
    made.add("m.weight", codes);
    made.add("m.weight_scale", {"F32", {}, {0, 0, 128, 63}});  // 1
    const auto matrix = open_packed(fp8(ScalesBy::tensor), made.of("m"));
    ASSERT_TRUE(matrix.ok()) << matrix.status().message();
    const Result<QuantisedMatrix> row = (*matrix)->read(0, 1);
    ASSERT_EQ(row.ok(), wrong == 0);
    if (wrong != 0) {
      EXPECT_THAT(row.status().message(), ::testing::HasSubstr("'.weight' holds a NaN"));
      continue;
    }
    std::vector<float> got(256);
    dequantise(*row, 0, 1, got.data());
    EXPECT_EQ(got[0x7e], 448);
  }
}

TEST(Int8, HasZerosByChannel) {
  MadeTensors made;
  made.add("m.weight", {"I8", {2, 2}, {0x80, 0x7f, 1, 2}});
  made.add("m.weight_scale", {"F32", {2, 1}, {0, 0, 128, 63, 0, 0, 0, 63}});  // 1, 1/2
  made.add("m.weight_zero_point", {"I8", {2, 1}, {0xff, 3}});                 // -1, 3
  const auto matrix = open_packed(
      {.packing = Packing::int8, .scales = ScalesBy::channel, .symmetric = false}, made.of("m"));
  ASSERT_TRUE(matrix.ok()) << matrix.status().message();
  std::vector<float> got(4);
  dequantise((*matrix)->read(0, 2).value(), 0, 2, got.data());
  EXPECT_EQ(got, (std::vector<float>{-127, 128, -1, -0.5F}));
}

}  // namespace
}  // namespace tandem
