#include "engine/loader/base_identity.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "base/ids/weights_identity.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using testing::SafetensorsWriter;
using testing::TempDir;

constexpr std::int64_t kRows = 64;
constexpr std::int64_t kColumns = 1024;

class BaseIdentity : public ::testing::Test {
 protected:
  BaseIdentity() : values_(static_cast<std::size_t>(kRows * kColumns)) {
    std::iota(values_.begin(), values_.end(), 1.0F);
    dir_.write("config.json", R"({"model_type":"llama"})");
    dir_.write("tokenizer.json", "{}");
    write_weights();
  }
  void write_weights() const {
    dir_.write("model.safetensors", SafetensorsWriter()
                                        .add("w", DType::f32, {kRows, kColumns}, values_)
                                        .add("norm", DType::f32, {4}, {1, 1, 1, norm_})
                                        .bytes());
  }
  std::string sampled() const { return read(BaseReading::sample); }
  std::string whole() const { return read(BaseReading::whole); }
  std::string read(BaseReading reading) const {
    const Result<std::string> identity = base_identity(dir_.path(), reading);
    EXPECT_TRUE(identity) << identity.status().message();
    return identity ? *identity : std::string();
  }

  const TempDir dir_;
  std::vector<float> values_;
  float norm_ = 1;
};

TEST_F(BaseIdentity, IsTheSameForTheSameFilesElsewhere) {
  const TempDir copy;
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) {
    std::filesystem::copy_file(dir_.path() / name, copy.path() / name);
  }
  EXPECT_EQ(sampled().size(), 32U);
  EXPECT_EQ(*base_identity(copy.path(), BaseReading::sample), sampled());
  EXPECT_EQ(*base_identity(copy.path(), BaseReading::whole), whole());
  EXPECT_TRUE(is_same_base(sampled(), whole()));
}

TEST_F(BaseIdentity, ChangesWithEveryFileThatDecidesAboutAnAnswer) {
  const std::string before = sampled();
  for (const char* name : {"config.json", "tokenizer.json", "chat_template.jinja"}) {
    const std::string last = sampled();
    dir_.write(name, "{\"another\":1}");
    EXPECT_NE(sampled(), last) << name;
  }
  EXPECT_NE(sampled(), before);
  const std::string last = sampled();
  dir_.write("README.md", "another");
  EXPECT_EQ(sampled(), last);
  EXPECT_NE(*base_identity(dir_.path(), BaseReading::sample, "a template from elsewhere"), last);
}

TEST_F(BaseIdentity, ChangesWithAnyTensor) {
  const std::string before = sampled();
  norm_ = 2;
  write_weights();
  EXPECT_NE(sampled(), before) << "of a small one all is read";
  norm_ = 1;
  for (float& value : values_) value += 1;
  write_weights();
  EXPECT_NE(sampled(), before) << "of a large one a sample";
}

// Changes a single value between the places that a sample reads.
TEST_F(BaseIdentity, SeesEveryByteWhereAllIsRead) {
  const std::string before = whole();
  values_[300] += 1;
  write_weights();
  EXPECT_EQ(sampled(), before.substr(0, 32));
  EXPECT_NE(whole(), before);
  EXPECT_FALSE(is_same_base(whole(), before));
}

TEST_F(BaseIdentity, IsNotToldOfAFolderWithoutWeights) {
  std::filesystem::remove(dir_.path() / "model.safetensors");
  EXPECT_EQ(base_identity(dir_.path(), BaseReading::sample).status().code(), StatusCode::not_found);
}

TEST_F(BaseIdentity, OfDrawnWeightsGoesByShapeAndSeed) {
  EXPECT_EQ(*dummy_base_identity("llama-7b", 1), *dummy_base_identity("llama-7b", 1));
  EXPECT_NE(*dummy_base_identity("llama-7b", 1), *dummy_base_identity("llama-7b", 2));
  EXPECT_NE(*dummy_base_identity("llama-7b", 1), *dummy_base_identity("llama-13b", 1));
  EXPECT_NE(*dummy_base_identity(dir_.path(), 1), *dummy_base_identity("llama-7b", 1));
  EXPECT_NE(*dummy_base_identity("llama-7b", 1, "{{ x }}"), *dummy_base_identity("llama-7b", 1));
}

TEST(BaseIdentityOfGguf, ChangesWithItsMetadataAndItsWeights) {
  const TempDir dir;
  const auto identity = [&](const char* name, float weight) {
    testing::GgufWriter writer;
    writer.add("general.name", name);
    writer.add_tensor("w", {64, 1024}, std::vector<float>(64 * 1024, weight));
    dir.write("a.gguf", writer.bytes());
    const Result<std::string> read = base_identity(dir.path() / "a.gguf", BaseReading::whole);
    EXPECT_TRUE(read) << read.status().message();
    return *read;
  };
  const std::string first = identity("a", 1);
  EXPECT_EQ(identity("a", 1), first);
  EXPECT_NE(identity("b", 1), first);
  EXPECT_NE(identity("a", 2), first);
}

// The hole is no part of the header.
TEST(BaseIdentityOfGguf, OfASampleDoesNotReadAHoleBeforeTheTensors) {
  const TempDir dir;
  const auto identity = [&](const char* name, char hole) {
    testing::GgufWriter writer;
    writer.add("general.name", name).add_tensor_at("w", {8}, 0, 4096);
    dir.write("a.gguf", writer.bytes() + std::string(4096, hole) + std::string(32, '\0'));
    const Result<std::string> read = base_identity(dir.path() / "a.gguf", BaseReading::sample);
    EXPECT_TRUE(read) << read.status().message();
    return *read;
  };
  EXPECT_EQ(identity("a", 'x'), identity("a", 'y'));
  EXPECT_NE(identity("a", 'x'), identity("b", 'x'));
}

}  // namespace
}  // namespace tandem
