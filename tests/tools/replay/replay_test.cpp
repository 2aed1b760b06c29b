// Runs `tandem replay` as a command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

TEST(Replay, RunsWhatGenerateRecordedAndSaysWhetherTokensDiffer) {
  const testing::TempDir dir;
  const std::string file = (dir.path() / "steps").string();
  const Finished made =
      run_tandem({"generate", "--model", "data/demo-llama", "--device", "host", "--no-pin",
                  "--adapters", "data/demo-llama/adapters", "--adapter", "python", "-p", "def f(",
                  "--max-tokens", "8", "--ignore-eos", "--record-steps", file});
  ASSERT_EQ(made.status, 0) << made.error;
  const Finished again = run_tandem({"replay", file, "--device", "host", "--no-pin"});
  EXPECT_EQ(again.status, 0) << again.error;
  EXPECT_THAT(again.output, HasSubstr("step     1  "));
  EXPECT_THAT(again.output, HasSubstr("1 token equal"));
  EXPECT_THAT(again.output, HasSubstr(" steps, 0 of 8 tokens differ"));

  const Finished other =
      run_tandem({"replay", file, "--model", "data/tiny-llama", "--device", "host", "--no-pin"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.error, HasSubstr("tandem replay: the steps are of a model with"));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  const Finished cut = run_tandem({"replay", file, "--device", "host", "--no-pin"});
  EXPECT_EQ(cut.status, 2);
  EXPECT_THAT(cut.error, HasSubstr("it is cut off"));
  EXPECT_EQ(cut.output, "");
}

TEST(Replay, SaysWhatItNeeds) {
  const Finished none = run_tandem({"replay"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.error, HasSubstr("which file?"));
  const Finished other = run_tandem({"replay", "data/golden.json"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.error, HasSubstr("data/golden.json is no recording of steps"));
}

}  // namespace
}  // namespace tandem
