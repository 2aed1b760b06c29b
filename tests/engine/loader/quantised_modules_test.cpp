// Quantised checkpoints as sources of weights: what of them is read, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file/file.h"
#include "engine/loader/safetensors/mapped_file.h"
#include "engine/loader/weights.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using testing::SafetensorsWriter;
using testing::TempDir;

constexpr std::int64_t kRows = 16, kCols = 24;
constexpr std::int64_t kShape[] = {kRows, kCols};

struct Tensor {
  std::string type;
  std::vector<std::int64_t> shape;
  std::string bytes;
};
template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A module 'm' of GPTQ, 4 bits in groups of 8: every code is 9, zeros are 8, and scales are 0.5.
class QuantisedModule : public ::testing::Test {
 protected:
  void SetUp() override {
    config_ = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 8}};
    tensors_["m.qweight"] = {
        "I32", {kCols / 8, kRows}, std::string(kCols * kRows / 2, static_cast<char>(0x99))};
    tensors_["m.qzeros"] = {
        "I32", {kCols / 8, kRows / 8}, std::string(kCols * kRows / 16, static_cast<char>(0x77))};
    tensors_["m.scales"] = {
        "F32", {kCols / 8, kRows}, bytes_of(std::vector<float>(kCols * kRows / 8, 0.5F))};
  }
  std::unique_ptr<WeightSource> open() {
    SafetensorsWriter writer;
    for (const auto& [name, tensor] : tensors_) {
      writer.add_raw(name, tensor.type, tensor.shape, tensor.bytes);
    }
    dir_.write("model.safetensors", writer.bytes());
    dir_.write("config.json", Json{{"quantization_config", config_}}.dump());
    auto source = open_checkpoint(dir_.path());
    EXPECT_TRUE(source.ok()) << source.status().message();
    return std::move(source).value();
  }
  // The first failure of checking and reading m.weight.
  std::string why() {
    const auto source = open();
    if (const Status status = source->check_all_used({"m.weight"}); !status)
      return status.message();
    std::vector<float> all(kRows * kCols);
    return source->read("m.weight", kShape, DType::f32, all.data()).message();
  }

  TempDir dir_;
  Json config_;
  std::map<std::string, Tensor> tensors_;
};

TEST_F(QuantisedModule, IsReadAsAWeight) {
  const auto source = open();
  EXPECT_TRUE(source->has("m.weight"));
  EXPECT_FALSE(source->has("n.weight"));
  EXPECT_EQ(source->packed_bytes(), 192U + 24 + 192);
  std::vector<float> all(kRows * kCols);
  EXPECT_EQ(source->read("m.weight", kShape, DType::f32, all.data()).message(), "");
  EXPECT_THAT(all, ::testing::Each(0.5F));
  const std::vector<std::int64_t> other = {kCols, kRows};
  EXPECT_THAT(source->read("m.weight", other, DType::f32, all.data()).message(),
              HasSubstr("is quantised as [16, 24], config.json asks for [24, 16]"));
}

// The first version of GPTQ takes 1 off each zero of a word, and a zero of 0 borrows from the next.
TEST_F(QuantisedModule, MayHaveZerosOf0) {
  std::string& zeros = tensors_["m.qzeros"].bytes;
  for (std::size_t at = 0; at < zeros.size(); at += 4) {
    zeros.replace(at, 4, "\xEF\xEE\xEE\xEE");  // 0 - 0x11111111
  }
  std::vector<float> all(kRows * kCols);
  ASSERT_TRUE(open()->read("m.weight", kShape, DType::f32, all.data()));
  EXPECT_THAT(all, ::testing::Each(4.5F));
}

TEST_F(QuantisedModule, IsTheSameInPartsOfAnySize) {
  std::mt19937_64 random(test_seed());
  for (const char* const each : {"m.qweight", "m.qzeros"}) {
    for (char& byte : tensors_[each].bytes) byte = static_cast<char>(random());
  }
  const auto source = open();
  std::vector<float> all(kRows * kCols);
  ASSERT_TRUE(source->read("m.weight", kShape, DType::f32, all.data()));
  for (int i = 0; i < 50; ++i) {
    const std::size_t begin = random() % (all.size() / 4) * 4;
    const std::size_t count = random() % 100 + 1;
    const std::size_t there = std::min(count, all.size() - begin);
    std::vector<float> part(count, -77);
    ASSERT_TRUE(source->read_part("m.weight", kShape, DType::f32, begin, count, part.data()));
    EXPECT_TRUE(std::equal(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(there),
                           all.begin() + static_cast<std::ptrdiff_t>(begin)))
        << begin << " " << count;
    if (there < count) {
      EXPECT_EQ(part[there], -77);
    }
  }
}

// The bytes of a mapped file that count as this process's memory.
std::int64_t mapped_bytes(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  std::int64_t sum = 0;
  bool is_here = false;
  for (std::string line; std::getline(maps, line);) {
    // A mapping's first line begins with its addresses; the others with a name.
    if (!std::isupper(static_cast<unsigned char>(line.front()))) is_here = line.ends_with(path);
    if (is_here && line.starts_with("Rss:")) sum += 1024 * std::stoll(line.substr(4));
  }
  return sum;
}

TEST_F(QuantisedModule, LeavesNoPagesMappedWhateverPartIsReadLast) {
  constexpr std::int64_t kMany = 2048;
  tensors_["m.qweight"] = {"I32", {kMany / 8, kMany}, std::string(kMany * kMany / 2, '\x11')};
  tensors_["m.qzeros"] = {"I32", {1, kMany / 8}, std::string(kMany / 2, '\x11')};
  tensors_["m.scales"] = {"F16", {1, kMany}, std::string(kMany * 2, '\x11')};
  config_["group_size"] = kMany;
  const auto source = open();
  const std::string path = dir_.path() / "model.safetensors";
  std::vector<float> row(kMany);
  for (const std::int64_t first : {kMany - 1, std::int64_t{0}}) {
    ASSERT_EQ(source
                  ->read_part("m.weight", std::vector{kMany, kMany}, DType::f32,
                              static_cast<std::size_t>(first * kMany), kMany, row.data())
                  .message(),
              "");
    EXPECT_LT(mapped_bytes(path), 64 << 10) << "row " << first;
  }
  const MappedFile map = MappedFile::map(File::open(path).value()).value();
  EXPECT_GT(std::ranges::count(map.bytes(), std::byte{0x11}), 2 << 20);
  EXPECT_GT(mapped_bytes(path), 2 << 20) << "pages that are read count";
}

TEST_F(QuantisedModule, IsRefusedByTheNameOfWhatIsWrong) {
  EXPECT_EQ(why(), "");
  const auto good = tensors_;
  const auto why_with = [&](const std::string& name, const Tensor& tensor) {
    tensors_ = good;
    tensors_[name] = tensor;
    return why();
  };
  EXPECT_THAT(why_with("m.scales", {"F32", {3, 15}, std::string(180, '\0')}),
              AllOf(HasSubstr("module 'm', quantised by gptq"),
                    HasSubstr("'.scales' is F32[3, 15]"), HasSubstr("take another copy")));
  EXPECT_THAT(why_with("m.scales", {"I32", {3, 16}, std::string(192, '\0')}), HasSubstr("I32"));
  EXPECT_THAT(why_with("m.qzeros", {"I32", {3, 1}, std::string(12, '\0')}),
              HasSubstr("'.qzeros' is I32[3, 1]"));
  EXPECT_THAT(why_with("m.qweight", {"I32", {48}, std::string(192, '\0')}), HasSubstr("a matrix"));
  EXPECT_THAT(why_with("m.qweight", {"I32", {3, 15}, std::string(180, '\0')}),
              HasSubstr("outputs do not fill words"));
  for (const float wrong :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> scales(48, 0.5F);
    scales[37] = wrong;
    EXPECT_THAT(why_with("m.scales", {"F32", {3, 16}, bytes_of(scales)}),
                HasSubstr("'.scales' holds"));
  }
  EXPECT_THAT(why_with("m.weight", {"F32", {1}, std::string(4, '\0')}),
              HasSubstr("others that are not"));
  tensors_ = good;
  tensors_.erase("m.scales");
  EXPECT_THAT(why(), HasSubstr("'.scales' is missing"));
  tensors_ = good;
  config_["desc_act"] = true;
  EXPECT_THAT(why(), HasSubstr("'.g_idx' is missing"));
}

TEST_F(QuantisedModule, HasGroupsOfEqualSizeInAnyOrder) {
  std::vector<std::int32_t> groups(kCols);
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<std::int32_t>(i % 3);
  const auto with_groups = [&] {
    tensors_["m.g_idx"] = {"I32", {kCols}, bytes_of(groups)};
    return why();
  };
  EXPECT_EQ(with_groups(), "");
  groups[0] = 1;
  EXPECT_THAT(with_groups(), HasSubstr("more than 8 columns into group 1"));
  for (const std::int32_t wrong : {-1, 3}) {
    groups[0] = wrong;
    EXPECT_THAT(with_groups(), HasSubstr("puts column 0 into group"));
  }
}

TEST_F(QuantisedModule, IsNotIgnoredAsTheHeadOfATiedModel) {
  for (const char* const part : {"qweight", "qzeros", "scales"}) {
    tensors_[fmt::format("lm_head.{}", part)] = tensors_[fmt::format("m.{}", part)];
  }
  EXPECT_THAT(why(), HasSubstr("'tie_word_embeddings'"));
}

TEST_F(QuantisedModule, MayHaveABiasOfZerosThatTheModelDoesNotHave) {
  tensors_["m.bias"] = {"F16", {kRows}, std::string(2 * kRows, '\0')};
  EXPECT_EQ(why(), "");
  tensors_["m.bias"].bytes[5] = 0x3c;
  EXPECT_THAT(why(), HasSubstr("'m.bias' is not 0"));
  EXPECT_TRUE(open()->check_all_used({"m.weight", "m.bias"}));
}

TEST_F(QuantisedModule, IsRefusedWhereTheConfigSkipsIt) {
  config_["dynamic"] = {{"-:m", Json::object()}};
  EXPECT_THAT(why(), HasSubstr("it is skipped there"));
}

TEST_F(QuantisedModule, IsReadAsItIsWhereItIsNotQuantised) {
  tensors_ = {
      {"m.weight", {"F32", {kRows, kCols}, bytes_of(std::vector<float>(kRows * kCols, 3))}}};
  EXPECT_EQ(why(), "");
  tensors_["m.weight_scale"] = {"F32", {1}, std::string(4, '\0')};
  EXPECT_THAT(why(), HasSubstr("there are scales in 'm.weight_scale'"));
}

TEST_F(QuantisedModule, OfBitsandbytesFitsItsState) {
  config_ = {
      {"quant_method", "bitsandbytes"}, {"load_in_4bit", true}, {"bnb_4bit_quant_type", "nf4"}};
  const std::string state_name = "m.weight.quant_state.bitsandbytes__nf4";
  const auto set_state = [&](const Json& state) {
    const std::string text = state.dump();
    tensors_[state_name] = {"U8", {static_cast<std::int64_t>(text.size())}, text};
    return why();
  };
  const Json good = {{"quant_type", "nf4"}, {"blocksize", 64}, {"shape", {kRows, kCols}}};
  tensors_ = {{"m.weight", {"U8", {kRows * kCols / 2, 1}, std::string(kRows * kCols / 2, '\x12')}},
              {"m.weight.absmax", {"F32", {6}, bytes_of(std::vector<float>(6, 1))}},
              {"m.weight.quant_map", {"F32", {16}, bytes_of(std::vector<float>(16, 1))}}};
  EXPECT_THAT(why(), HasSubstr("quant_state.bitsandbytes__nf4' is missing"));
  EXPECT_EQ(set_state(good), "");
  Json wrong = good;
  wrong["shape"] = {kRows, kCols + 8};
  EXPECT_THAT(set_state(wrong), HasSubstr("'.weight' has 192 bytes"));
  wrong["shape"] = {0, kCols};
  EXPECT_THAT(set_state(wrong), HasSubstr("'shape' is 0"));
  wrong = good;
  wrong["blocksize"] = 32;
  EXPECT_THAT(set_state(wrong), HasSubstr("'.weight.absmax' is F32[6]"));
  wrong = good;
  wrong["quant_type"] = "fp4";
  EXPECT_THAT(set_state(wrong), HasSubstr("'quant_type' is not 'nf4'"));
  wrong = good;
  wrong["nested_blocksize"] = 256;
  EXPECT_THAT(set_state(wrong), HasSubstr("has no 'nested_offset'"));
  EXPECT_THAT(set_state("x"), HasSubstr("no JSON object"));
}

TEST_F(QuantisedModule, OfCompressedTensorsHasTheShapeThatItSays) {
  config_ = Json::parse(R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
      "config_groups": {"a": {"targets": ["Linear"], "weights":
      {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 8, "symmetric": false}}}})");
  const auto shape = [](std::int64_t rows, std::int64_t cols) {
    return Tensor{"I64", {2}, bytes_of(std::vector<std::int64_t>{rows, cols})};
  };
  tensors_ = {
      {"m.weight_packed", {"I32", {kRows, kCols / 8}, std::string(kRows * kCols / 2, '\x12')}},
      {"m.weight_scale", {"F32", {kRows, 3}, bytes_of(std::vector<float>(kRows * 3, 1))}},
      {"m.weight_zero_point", {"I32", {kRows / 8, 3}, std::string(kRows / 8 * 12, '\0')}},
      {"m.weight_shape", shape(kRows, kCols)}};
  EXPECT_EQ(why(), "");
  tensors_["m.weight_shape"] = shape(kRows, kCols + 1);
  EXPECT_THAT(why(), HasSubstr("does not fit '.weight_packed'"));
  tensors_["m.weight_shape"] = shape(kRows, -1);
  EXPECT_THAT(why(), HasSubstr("does not fit '.weight_packed'"));
  tensors_["m.weight_shape"] = shape(kRows, kCols - 1);
  EXPECT_THAT(why(), HasSubstr("groups of 8 columns do not divide its 23"));
  tensors_["m.weight_shape"] = shape(kRows, kCols);
  tensors_["m.weight_g_idx"] = {"I32", {kCols}, std::string(4 * kCols, '\xff')};
  EXPECT_EQ(why(), "");
  tensors_["m.weight_g_idx"].bytes[0] = '\0';
  EXPECT_THAT(why(), HasSubstr("puts column 0 into group -256"));
  tensors_.erase("m.weight_g_idx");
  tensors_.erase("m.weight_zero_point");
  EXPECT_THAT(why(), HasSubstr("'.weight_zero_point' is missing"));
}

TEST_F(QuantisedModule, OfFp8HasScalesForAllBlocks) {
  config_ = {{"quant_method", "fp8"}, {"weight_block_size", {16, 16}}};
  tensors_ = {{"m.weight", {"F8_E4M3", {kRows, kCols}, std::string(kRows * kCols, '\x38')}},
              {"m.weight_scale_inv", {"F32", {1, 2}, bytes_of(std::vector<float>(2, 1))}}};
  EXPECT_EQ(why(), "");
  tensors_["m.weight_scale_inv"] = {"F32", {1, 1}, bytes_of(std::vector<float>(1, 1))};
  EXPECT_THAT(why(), HasSubstr("'.weight_scale_inv' is F32[1, 1], it must be [1, 2]"));
  tensors_.erase("m.weight_scale_inv");
  EXPECT_THAT(why(), HasSubstr("'.weight_scale_inv' are missing"));
  tensors_["m.weight"].type = "I8";
  EXPECT_THAT(why(), HasSubstr("'.weight' is I8[16, 24], it must be of F8_E4M3"));
}

}  // namespace
}  // namespace tandem
