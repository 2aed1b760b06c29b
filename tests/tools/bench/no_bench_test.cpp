// `tandem bench` in a build without benchmarks (tools/quickstart).
#include <gmock/gmock.h>

#include "tools/bench/bench.h"
#include "tools/cli/flags/flags.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

class Reader final : public HelpReader {
 public:
  void read(const Subcommands& /*commands*/) override { ++seen; }
  void read(const CommandInfo& /*command*/, const SettingsTable& /*table*/) override { ++seen; }
  int seen = 0;
};

TEST(NoBench, SaysHowToGetBenchmarksWhateverIsAsked) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{}, {"engine"}, {"engine", "--help"}}) {
    CaptureStderr();
    EXPECT_EQ(run_bench(args), kExitUsage);
    EXPECT_THAT(GetCapturedStderr(), HasSubstr("cmake -DTANDEM_BENCH=ON build/release"));
  }
  CaptureStdout();
  EXPECT_EQ(run_bench({"--help"}), kExitOk);
  EXPECT_THAT(GetCapturedStdout(), HasSubstr("no benchmarks"));
}

// A HelpReader gets the help for manual pages and completions, and nothing is printed.
TEST(NoBench, PrintsNothingWhereItsHelpIsRead) {
  Reader reader;
  CaptureStdout();
  EXPECT_EQ(run_bench({"--help"}), kExitOk);
  EXPECT_EQ(GetCapturedStdout(), "");
  EXPECT_EQ(reader.seen, 1);
}

}  // namespace
}  // namespace tandem
