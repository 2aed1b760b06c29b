#include "tools/cli/flags/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/file/file.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> given;

int run_plan(const std::vector<std::string>& args) {
  given = args;
  return 7;
}
int run_shown(const std::vector<std::string>&) {
  return 8;
}

constexpr std::array<Subcommand, 2> kRows = {
    {{"plan", "plans", run_plan}, {"shown", "is shown", run_shown}}};
const Subcommands kCommands{"prog", "verb", "Verbs:\n", "The end.\n", kRows};

TEST(RunSubcommand, PassesWhatComesAfterTheNameAndItsExitStatus) {
  EXPECT_EQ(run_subcommand(kCommands, {"plan", "--help", "x"}), 7);
  EXPECT_THAT(given, ElementsAre("--help", "x"));
  EXPECT_EQ(run_subcommand(kCommands, {"shown"}), 8);
}

TEST(RunSubcommand, HelpOfANameIsWhatTheNameSaysToHelp) {
  EXPECT_EQ(run_subcommand(kCommands, {"help", "plan", "x"}), 7);
  EXPECT_THAT(given, ElementsAre("x", "--help"));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_subcommand(kCommands, {"help", "plam"}), kExitUsage);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("did you mean 'plan'?"));
}

TEST(RunSubcommand, PrintsTheTableWhenAskedAndAsAMistakeWhenNothingIsNamed) {
  const std::string table = "Verbs:\n  plan   plans\n  shown  is shown\nThe end.\n";
  for (const char* name : {"--help", "-h", "help"}) {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(run_subcommand(kCommands, {name}), kExitOk);
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), table);
  }
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_subcommand(kCommands, {}), kExitUsage);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), table);
}

TEST(RunSubcommand, NamesTheNearestOneAndAll) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_subcommand(kCommands, {"plam"}), kExitUsage);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "prog: unknown verb 'plam'; did you mean 'plan'? there are plan, shown\n");
}

TEST(ReadSettings, AListOfManyTakesAllWordsUpToTheNextFlag) {
  std::vector<std::string> names;
  std::vector<std::string> single;
  bool loud = false;
  SettingsTable table;
  table.add(names, "names", "of those").many().flag_only();
  table.add(single, "single", "one each").flag_only();
  table.add(loud, "loud", "or not").flag_only();
  const CommandInfo info{"test", "", "", ""};
  ASSERT_EQ(
      read_settings(info, table, {"--names", "a", "b", "--loud", "--names=c", "--single", "d"}),
      std::nullopt);
  EXPECT_THAT(names, ElementsAre("a", "b", "c"));
  EXPECT_THAT(single, ElementsAre("d"));
  EXPECT_TRUE(loud);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(read_settings(info, table, {"--single", "d", "e"}), kExitUsage);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("unexpected argument 'e'"));
}

TEST(ReadSettings, WordsMayStandBeforeAndAfterFlags) {
  const CommandInfo info{"test", "", "", ""};
  for (const auto& args : std::vector<std::vector<std::string>>{
           {"a", "b", "--loud"}, {"a", "--loud", "b"}, {"--loud", "a", "b"}}) {
    bool loud = false;
    std::vector<std::string> words;
    SettingsTable table;
    table.add(loud, "loud", "or not").flag_only();
    ASSERT_EQ(read_settings(info, table, args, {.words = &words, .most_words = 2}), std::nullopt);
    EXPECT_THAT(words, ElementsAre("a", "b"));
    EXPECT_TRUE(loud);
  }
}

TEST(ReadSettings, WordsBeyondTheMostAndUnknownFlagsAreMistakes) {
  const CommandInfo info{"test", "", "", ""};
  const auto complaint_of = [&](const std::vector<std::string>& args) {
    std::vector<std::string> words;
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(read_settings(info, {}, args, {.words = &words}), kExitUsage);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(complaint_of({"a", "b"}), HasSubstr("unexpected argument 'b'"));
  EXPECT_THAT(complaint_of({"a", "--lout"}), HasSubstr("unknown flag '--lout'"));
}

TEST(ReadSettings, HelpSaysHowToSeeSettingsForExpertsWhereThereAreSome) {
  const auto help_of = [](bool has_expert, const char* flag) {
    std::int64_t rows = 1;
    SettingsTable table;
    SettingsField& field = table.add(rows, "rows", "of a step");
    if (has_expert) field.expert();
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(read_settings({"test", "", "", ""}, table, {flag}), kExitOk);
    return ::testing::internal::GetCapturedStdout();
  };
  EXPECT_THAT(help_of(true, "--help"), HasSubstr("--help-all"));
  EXPECT_THAT(help_of(true, "--help"), Not(HasSubstr("--rows")));
  EXPECT_THAT(help_of(true, "--help-all"), HasSubstr("--rows"));
  EXPECT_THAT(help_of(false, "--help"), Not(HasSubstr("--help-all")));
}

TEST(ReadSettings, ASettingForExpertsIsReadLikeAnyOther) {
  std::int64_t rows = 1;
  SettingsTable table;
  table.add(rows, "rows", "of a step").expert();
  EXPECT_EQ(read_settings({"test", "", "", ""}, table, {"--rows", "5"}), std::nullopt);
  EXPECT_EQ(rows, 5);
}

TEST(ReadSettings, AFlagThatIsGoneIsRefusedWithTheOneToUse) {
  std::string gpus;
  SettingsTable table;
  table.add(gpus, "gpus", "numbers of the GPUs");
  table.retire("gpu_number", "use gpus");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(read_settings({"test", "", "", ""}, table, {"--gpu-number", "2"}), kExitUsage);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "tandem test: gpu_number is no longer a setting (from --gpu-number); use gpus\n");
}

TEST(ReportFailure, AMistakeIsToldFromAFailureByTheExitStatus) {
  const CommandInfo info{"test", "", "", ""};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(report_failure(info, invalid("'{}' is not NAME=DIR", "x")), kExitUsage);
  EXPECT_EQ(report_failure(info, error(StatusCode::not_found, "gone")), kExitFailure);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "tandem test: 'x' is not NAME=DIR\ntandem test: gone\n");
}

TEST(WriteOutput, WritesTheWholeTextAndNamesTheSettingOfAFileThatCannotBeWritten) {
  const testing::TempDir folder;
  const std::string path = folder.path() / "out";
  const std::string text("a\0b\n", 4);
  ASSERT_TRUE(write_output("json", path, text));
  EXPECT_EQ(*read_text_file(path, 100), text);
  const Status status = write_output("json", "/no/such/folder/x", text);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.message(), HasSubstr("json: /no/such/folder/x: No such file"));
}

}  // namespace
}  // namespace tandem
