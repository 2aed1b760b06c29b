#include "base/log/log_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "base/log/log_levels.h"
#include "tests/support/test_seed.h"

namespace tandem::log {
namespace {

TEST(LogLine, IsAMessageAndItsValues) {
  const Field fields[] = {
      {"id", "req-1"}, {"adapter", ""}, {"status", std::int64_t{200}}, {"ttft_s", 0.0123}};
  EXPECT_EQ(text_line("request", fields), "request id=req-1 adapter=- status=200 ttft_s=0.0123");
  EXPECT_EQ(json_members("engine/server", "request", fields),
            R"("module":"engine/server","message":"request","id":"req-1","adapter":"",)"
            R"("status":200,"ttft_s":0.012300)");
}

TEST(LogLine, LetsNobodyBeginALineOfTheirOwn) {
  const Field fields[] = {{"id", "a\n2026-01-01 error b"}, {"model", "x y=1"}};
  EXPECT_EQ(text_line("a\nb\x1b[31m", fields),
            "a\\nb\\x1b[31m id=\"a\\n2026-01-01 error b\" model=\"x y=1\"");
}

TEST(LogLine, IsValidJsonWhateverTheText) {
  std::mt19937_64 random(test_seed());
  std::uniform_int_distribution<int> length(0, 40);
  std::uniform_int_distribution<int> byte(0, 255);
  for (int i = 0; i < 20000; ++i) {
    std::string texts[3];
    for (std::string& text : texts) {
      text.resize(static_cast<std::size_t>(length(random)));
      // Half of the characters are special in JSON or begin a UTF-8 sequence.
      constexpr std::string_view kSharp = "\"\\\n\t\x7f\xc3\xa9\xe2\x82\xf0\x9f\xed\xa0{}";
      for (char& c : text) {
        const auto drawn = static_cast<std::size_t>(byte(random));
        c = drawn % 2 == 0 ? static_cast<char>(drawn) : kSharp[drawn / 2 % kSharp.size()];
      }
    }
    const Field fields[] = {{"id", texts[1]}, {"x", std::nan("")}, {"n", std::int64_t{-7}}};
    const std::string members = json_members(texts[2], texts[0], fields);
    const auto line = nlohmann::json::parse("{" + members + "}", nullptr, false);
    ASSERT_TRUE(line.is_object()) << members;
    ASSERT_TRUE(line["message"].is_string() && line["id"].is_string() && line["x"].is_null());
    ASSERT_EQ(members.find('\n'), std::string::npos);
    ASSERT_EQ(text_line(texts[0], fields).find('\n'), std::string::npos);
  }
}

TEST(LogLevels, AreOneForAllAndOthersForModules) {
  const auto levels = Levels::parse("info,engine=warning,handoff=debug,server/calls=off");
  ASSERT_TRUE(levels.ok()) << levels.status().message();
  EXPECT_EQ(levels->of("tools/serve"), Level::info);
  EXPECT_EQ(levels->of("engine/adapters"), Level::warning);
  EXPECT_EQ(levels->of("engine/handoff"), Level::debug);
  EXPECT_EQ(levels->of("engine/server/calls"), Level::off);
  EXPECT_EQ(levels->of("engine/server"), Level::warning);
  EXPECT_EQ(levels->of("xengine"), Level::info);
  EXPECT_EQ(levels->lowest(), Level::debug);
  EXPECT_EQ(levels->text(), "info,engine=warning,handoff=debug,server/calls=off");
}

TEST(LogLevels, MayLeaveTheFirstOut) {
  const auto levels = Levels::parse("handoff=debug,handoff=error");
  ASSERT_TRUE(levels.ok());
  EXPECT_EQ(levels->text(), "info,handoff=error");
}

TEST(LogLevels, RefuseWhatThereIsNot) {
  for (const char* text : {"", "loud", "info,handof=debug", "info,engine/=debug", "handoff=loud",
                           "info,debug", "=debug", "info,,", "info,hand=debug"}) {
    EXPECT_FALSE(Levels::parse(text).ok()) << text;
  }
  const auto typo = Levels::parse("info,handof=debug");
  EXPECT_NE(typo.status().message().find("engine/handoff"), std::string::npos);
}

TEST(LogLevels, KnowTheFoldersByTheSourcesNames) {
  EXPECT_EQ(module_of("../../engine/handoff/handoff.cpp"), "engine/handoff");
  EXPECT_EQ(module_of("main.cpp"), "");
}

// A missing folder could not be configured; one that does not log would be a name without effect.
TEST(LogLevels, KnowEveryFolderThatLogs) {
  namespace fs = std::filesystem;
  std::set<std::string> logging;
  for (const char* top : {"base", "cpu_lora", "engine", "gpu", "scheduler", "shm", "tools"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path("..") / top)) {
      const fs::path& path = entry.path();
      if (path.extension() != ".cpp" && path.extension() != ".h") continue;
      std::stringstream text;
      text << std::ifstream(path).rdbuf();
      const std::string source = text.str();
      const bool logs = std::ranges::any_of(
          std::array{"log::debug(", "log::info(", "log::warning(", "log::error(",
                     "log::info_with("},
          [&](const char* call) { return source.find(call) != std::string::npos; });
      if (logs) logging.insert(fs::relative(path.parent_path(), "..").string());
    }
  }
  ASSERT_GT(logging.size(), 20U);
  for (const std::string& folder : logging) {
    EXPECT_TRUE(Levels::parse(folder + "=debug").ok()) << folder << " logs, and kModules lacks it";
  }
}

}  // namespace
}  // namespace tandem::log
