#include "tools/cli/flags/file_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::int64_t rank;

int run_pack(const std::vector<std::string>& args) {
  std::string secret;
  SettingsTable table;
  table.add(rank, "rank", "of the pack");
  table.add(secret, "token", "no key").flag_only();
  return read_settings({"pack", "", "", ""}, table, args).value_or(kExitOk);
}
int run_ship(const std::vector<std::string>& args) {
  std::string harbour;
  SettingsTable table;
  table.add(harbour, "harbour", "where to");
  table.add(rank, "rank", "of the captain");
  return read_settings({"trade ship", "", "", ""}, table, args).value_or(kExitOk);
}

constexpr std::array<Subcommand, 1> kTrades = {{{"ship", "ships", run_ship}}};
int run_trade(const std::vector<std::string>& args) {
  return run_subcommand({"prog trade", "trade", "", "", kTrades}, args);
}

constexpr std::array<Subcommand, 2> kRows = {
    {{"pack", "packs", run_pack}, {"trade", "trades", run_trade}}};
const Subcommands kCommands{"prog", "verb", "", "", kRows};

TEST(FileKeys, AreThoseOfAllCommandsAndOfThoseBelowThem) {
  ::testing::internal::CaptureStdout();
  EXPECT_THAT(file_keys(kCommands), ElementsAre("harbour", "rank"));
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

TEST(FileKeys, OfOneCommandArePassedOverByAnother) {
  const testing::TempDir folder;
  const std::string file = folder.write("shared.toml", "harbour = \"Bergen\"\nrank = 7\n");
  EXPECT_EQ(run_subcommand(kCommands, {"pack", "--config", file}), kExitOk);
  EXPECT_EQ(rank, 7);
  EXPECT_EQ(run_subcommand(kCommands, {"trade", "ship", "--config", file}), kExitOk);
}

TEST(FileKeys, OfNoCommandAreRefusedByTheOneThatReads) {
  const testing::TempDir folder;
  const auto refusal = [&](const std::vector<std::string>& command, std::string_view text) {
    std::vector<std::string> args = command;
    args.insert(args.end(), {"--config", folder.write("bad.toml", text)});
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(run_subcommand(kCommands, args), kExitUsage);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(refusal({"pack"}, "harbor = 1\n"), HasSubstr("did you mean 'harbour'?"));
  EXPECT_THAT(refusal({"pack"}, "token = 1\n"), HasSubstr("unknown key 'token'"));
  EXPECT_THAT(refusal({"trade", "ship"}, "wholly_else = 1\n"), HasSubstr("tandem trade ship: "));
  EXPECT_THAT(refusal({"trade", "ship"}, "wholly_else = 1\n"),
              HasSubstr("`tandem trade ship --help` lists the keys"));
}

}  // namespace
}  // namespace tandem
