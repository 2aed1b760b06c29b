#include "tools/cli/flags/help_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tools/settings/engine_settings.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HelpText, ListsFlagDefaultVariableAndKeyUnderItsGroup) {
  EngineSettings engine;
  ServerSettings server;
  SettingsTable table;
  add_engine_settings(table, engine, server,
                      {.adapters = true, .handoff = true, .adapter = true, .batching = true});
  const std::string help =
      help_text({"serve", "--model DIR [flags]", "Serves.", "tandem x"}, table);
  EXPECT_THAT(help, HasSubstr("Usage: tandem serve --model DIR [flags]"));
  EXPECT_THAT(help, HasSubstr("\nBatching:\n"));
  EXPECT_THAT(help, HasSubstr("  --device auto|cuda|host\n      where to compute; auto: a GPU if "
                              "one can be used, otherwise the host\n"
                              "      (default auto, TANDEM_DEVICE, key device)\n"));
  EXPECT_EQ(help.find("--port"), std::string::npos);  // belongs to another command
}

TEST(HelpText, SaysOfSwitchesWhetherTheyCanBeTurnedOff) {
  bool in_files = false;
  bool on = true;
  bool off = false;
  SettingsTable table;
  table.add(in_files, "in_files", "may be set there");
  table.add(on, "on", "is set").flag_only();
  table.add(off, "off", "is not").flag_only();
  const std::string help = help_text({"test", "[flags]", "Tests.", ""}, table);
  EXPECT_THAT(help, HasSubstr("  --[no-]in-files\n      may be set there\n      (default false, "));
  EXPECT_THAT(help, HasSubstr("  --[no-]on\n      is set\n      (default true)\n"));
  EXPECT_THAT(help, HasSubstr("  --off\n      is not\n"));
}

TEST(HelpText, ShowsSettingsForExpertsWhereAllIsAskedFor) {
  std::int64_t common = 1;
  std::int64_t rare = 2;
  SettingsTable table;
  table.add(common, "common", "of everybody");
  table.add(rare, "rare", "of few").expert();
  const CommandInfo info{"test", "[flags]", "Tests.", ""};
  EXPECT_THAT(help_text(info, table), Not(HasSubstr("rare")));
  EXPECT_THAT(help_text(info, table, true), HasSubstr("  --rare N\n      of few\n"));
  EXPECT_THAT(help_text(info, table, true), HasSubstr("  --common N\n"));
}

TEST(HelpText, BreaksLongLinesBetweenWords) {
  std::string value;
  SettingsTable table;
  std::string words;
  for (int i = 0; i < 60; ++i) words += "word" + std::to_string(i) + " ";
  const std::string path(120, 'p');
  table.add(value, "value", words + path).flag_only();
  std::istringstream lines(help_text({"test", "[flags]", "Tests.", ""}, table));
  int longer = 0;
  std::string line;
  std::string joined;
  while (std::getline(lines, line)) {
    if (line.size() > 96) ++longer;
    if (line.starts_with("      ")) joined += line.substr(6) + " ";
  }
  EXPECT_EQ(longer, 1) << "the path, which is one word";
  EXPECT_EQ(joined, words + path + " ");
}

}  // namespace
}  // namespace tandem
