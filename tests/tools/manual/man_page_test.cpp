#include "tools/manual/man_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

int run_pack(const std::vector<std::string>& args) {
  std::string folder = "/here/alone";
  std::string key = "hidden";
  bool tight = true;
  SettingsTable table;
  table.group("What");
  table.add(folder, "folder", ".hidden ones, too; a\\b").meta("DIR");
  table.add(key, "key", "of the lock").secret();
  table.add(tight, "tight", "no air").short_flag('t');
  return read_settings({"pack", "--folder DIR", "Packs.\n\nTwice.", "  prog pack"}, table, args)
      .value_or(kExitFailure);
}

constexpr std::array<Subcommand, 1> kRows = {{{"pack", "packs what is there", run_pack}}};
const Subcommands kCommands{"prog", "verb", "Usage: prog VERB [flags]\n\nDoes things.\n\nVerbs:\n",
                            "\nThe end.\n", kRows};

TEST(CommandTree, HasEveryCommandWithItsFlagsAndPrintsNothing) {
  ::testing::internal::CaptureStdout();
  const Command root = read_commands(kCommands);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(root.usage, "VERB [flags]");
  EXPECT_EQ(root.description, "Does things.\n\nThe end.\n");
  ASSERT_EQ(all_of(root).size(), 2u);
  const Command& pack = root.subcommands.front();
  EXPECT_EQ(pack.name, "prog pack");
  std::vector<std::string> keys;
  for (const SettingsFacts& flag : pack.flags) keys.push_back(flag.key);
  EXPECT_THAT(keys, ElementsAre("folder", "key", "tight", "config", "print_config", "help"));
  EXPECT_THAT(spellings_of(pack.flags[2]), ElementsAre("--tight", "--no-tight", "-t"));
  EXPECT_THAT(spellings_of(pack.flags[5]), ElementsAre("--help", "-h"));
  EXPECT_EQ(value_kind_of(pack.flags[0]), ValueKind::folder);

  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_pack({"--help"}), kExitOk);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("Usage: tandem pack"));
}

TEST(ManPage, SaysWhatTheHelpSaysAndNothingOfThisMachineOrASecret) {
  const Command root = read_commands(kCommands);
  EXPECT_THAT(man_page(root, "1.2"), HasSubstr("\\fBprog\\-pack\\fR(1)\npacks what is there\n"));
  const std::string page = man_page(root.subcommands.front(), "1.2");
  EXPECT_THAT(page, HasSubstr(".TH PROG\\-PACK 1 \"\" \"tandem 1.2\" \"User Commands\"\n"));
  EXPECT_THAT(page, HasSubstr("Packs.\n.PP\nTwice.\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-folder\\fR \\fIDIR\\fR\n\\&.hidden ones, too; a\\eb\n"
                              ".br\n(variable TANDEM_FOLDER, key folder)\n"));
  EXPECT_THAT(page, HasSubstr("(default true, variable TANDEM_TIGHT, key tight)"));
  EXPECT_THAT(page, Not(HasSubstr("/here/alone")));
  EXPECT_THAT(page, Not(HasSubstr("hidden\n.br")));
  EXPECT_THAT(page, HasSubstr(".SH SEE ALSO\n\\fBprog\\fR(1)\n"));
}

}  // namespace
}  // namespace tandem
