#include "engine/loader/foreign_checkpoint.h"

#include <gmock/gmock.h>

#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;

TEST(ForeignFormat, IsNoneOfAFolderThatIsMissing) {
  const TempDir dir;
  EXPECT_EQ(foreign_format(dir.path() / "missing"), "");
}

TEST(ForeignFormat, NamesTheFileOfAFolder) {
  for (const char* name :
       {"llama-q4_k_m.gguf", "pytorch_model.bin", "pytorch_model-00001-of-00002.bin",
        "consolidated.00.pth", "consolidated.safetensors"}) {
    const TempDir dir;
    EXPECT_EQ(foreign_format(dir.path()), "");
    dir.write(name, "x");
    EXPECT_THAT(foreign_format(dir.path()), HasSubstr(name));
  }
}

TEST(ForeignFormat, NamesTheFirstPartOfAGgufModel) {
  const TempDir dir;
  dir.write("mmproj-a.gguf", "x");
  dir.write("a-00002-of-00002.gguf", "x");
  EXPECT_EQ(foreign_format(dir.path()), "");
  dir.write("z-00001-of-00002.gguf", "x");
  EXPECT_THAT(foreign_format(dir.path()), HasSubstr("z-00001-of-00002.gguf"));
  dir.write("best-of.gguf", "x");
  EXPECT_THAT(foreign_format(dir.path()), HasSubstr("best-of.gguf"));
}

TEST(ForeignFormat, IsSeenInAName) {
  EXPECT_EQ(foreign_format_in_name("turboderp/Llama2-7B-exl2"), "EXL2");
  EXPECT_EQ(foreign_format_in_name("bartowski/Qwen2.5-7B-Instruct-gguf"), "");
  EXPECT_EQ(foreign_format_in_name("mlx-community/Llama-3-8B-4bit"), "MLX");
  EXPECT_EQ(foreign_format_in_name("meta-llama/Llama-2-7b-hf"), "");
  EXPECT_EQ(foreign_format_in_name("me/mlxer"), "");
  EXPECT_EQ(foreign_format_in_name(""), "");
}

}  // namespace
}  // namespace tandem
