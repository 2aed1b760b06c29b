// The order of rows, of tensors that tests/engine/model/gguf_checkpoint_test.cpp does not have.
#include "engine/loader/gguf_checkpoint.h"

#include <gtest/gtest.h>

#include "base/dtype.h"
#include "engine/loader/model_files.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using testing::GgufWriter;
using testing::TempDir;

TEST(GgufCheckpointRows, AreThoseOfABiasInBlocks) {
  constexpr std::uint32_t kQ8_0 = 8;
  constexpr int kElements = 64, kHeads = 2, kHeadDim = kElements / kHeads;
  std::string blocks;
  for (int i = 0; i < kElements; ++i) {
    if (i % 32 == 0) blocks += GgufWriter::raw(from_float<f16>(1));
    blocks += static_cast<char>(i);
  }
  GgufWriter writer;
  writer.add("general.architecture", "llama").add("llama.attention.head_count", 2U);
  writer.add_tensor("blk.0.attn_q.bias", {kElements}, kQ8_0, blocks);
  const TempDir dir;
  dir.write("a.gguf", writer.bytes());
  const auto source = open_gguf(dir.path() / "a.gguf");
  ASSERT_TRUE(source.ok()) << source.status().message();
  std::vector<float> got(kElements);
  const Status status = (*source)->read("blk.0.attn_q.bias", std::vector<std::int64_t>{kElements},
                                        DType::f32, got.data());
  ASSERT_TRUE(status) << status.message();
  for (int i = 0; i < kElements; ++i) {
    const int at = i % kHeadDim;
    const int stored = i - at + at % (kHeadDim / 2) * 2 + at / (kHeadDim / 2);
    EXPECT_EQ(got[static_cast<std::size_t>(i)], static_cast<float>(stored)) << i;
  }
}

TEST(ModelFilesOfGguf, AreRefusedWhereTheyAreLargerThanAskedFor) {
  GgufWriter writer;
  writer.add("tokenizer.chat_template", std::string(1000, 'x'));
  const TempDir dir;
  dir.write("a.gguf", writer.bytes());
  EXPECT_TRUE(read_model_file(dir.path() / "a.gguf", "tokenizer_config.json", 2000).ok());
  EXPECT_NE(read_model_file(dir.path() / "a.gguf", "tokenizer_config.json", 1000)
                .status()
                .message()
                .find("more than 1000"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem
