#include "base/log/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/log/log_output.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

// Redirects descriptor 2 to `writer`, like a program started with its standard error in a pipe.
class Redirected {
 public:
  explicit Redirected(int writer) : saved_(::dup(STDERR_FILENO)) { ::dup2(writer, STDERR_FILENO); }
  ~Redirected() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  int saved_;
};

std::string read_what_there_is(int reader) {
  ::fcntl(reader, F_SETFL, O_NONBLOCK);
  std::string text;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t got = ::read(reader, piece.data(), piece.size());
    if (got <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

// Logs more than a pipe holds, and more than may wait. The test passes if this ends.
void expect_no_wait(int reader, int writer) {
  constexpr int kLines = 20000;
  const std::string rest(200, 'x');
  log::set_level(log::Level::info);
  std::string text;
  {
    const Redirected redirected(writer);
    for (int i = 0; i < kLines; ++i) log::info("line {} {}", i, rest);
    text = read_what_there_is(reader);
    log::info("somebody reads again");
    // Each line also sends waiting bytes, as many as fit.
    for (int i = 0; i < 1000; ++i) {
      text += read_what_there_is(reader);
      log::info("go on");
    }
  }
  log::set_level(log::Level::off);
  EXPECT_THAT(text, HasSubstr("line 0 x"));
  EXPECT_THAT(text, HasSubstr("lines of the log are lost: nobody read them\n"));
  EXPECT_THAT(text, HasSubstr("line 19999 x"));
  EXPECT_THAT(text, HasSubstr("info somebody reads again\n"));
  EXPECT_LT(text.size(), std::size_t{3} << 20);
}

TEST(Log, DoesNotWaitForAPipeThatNobodyReads) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  expect_no_wait(ends[0], ends[1]);
  for (const int end : ends) ::close(end);
}

TEST(Log, DoesNotWaitForASocketThatNobodyReads) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  expect_no_wait(ends[0], ends[1]);
  for (const int end : ends) ::close(end);
}

TEST(Log, EndsAProcessWhoseErrorsNobodyReads) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  LogOutput output;
  {
    const Redirected redirected(ends[1]);
    for (int i = 0; i < 1000; ++i) output.write(std::string(200, 'x') + "\n");
    output.flush(10);
  }
  for (const int end : ends) ::close(end);
}

TEST(Log, WritesLinesInTheirOrder) {
  log::set_level(log::Level::info);
  ::testing::internal::CaptureStderr();
  log::info("one");
  log::warning("two");
  log::debug("three");
  log::set_level(log::Level::off);
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, ::testing::MatchesRegex(".* info one\n.* warning two\n"));
}

TEST(Log, WritesAnObjectOfJsonOnEachLine) {
  log::set_level(log::Level::info);
  log::set_format(log::Format::json);
  ::testing::internal::CaptureStderr();
  log::warning("a \"quoted\"\nword");
  const log::Field fields[] = {{"id", "req-1"}};
  log::info_with("request", fields, "../../engine/server/api.cpp");
  log::set_format(log::Format::text);
  log::set_level(log::Level::off);
  std::istringstream lines(::testing::internal::GetCapturedStderr());
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const auto first = nlohmann::json::parse(line);
  EXPECT_EQ(first["level"], "warning");
  EXPECT_EQ(first["message"], "a \"quoted\"\nword");
  EXPECT_THAT(first["time"].get<std::string>(),
              ::testing::MatchesRegex("20..-..-..T..:..:..\\....[+-]..:.."));
  ASSERT_TRUE(std::getline(lines, line));
  const auto second = nlohmann::json::parse(line);
  EXPECT_EQ(second["module"], "engine/server");
  EXPECT_EQ(second["id"], "req-1");
}

TEST(Log, TakesLevelsOfModulesWhileItRuns) {
  const char* const handoff = "../../engine/handoff/handoff.cpp";
  const char* const server = "../../engine/server/api.cpp";
  log::set_levels(*log::Levels::parse("warning,handoff=debug"));
  EXPECT_TRUE(log::enabled(log::Level::debug, handoff));
  EXPECT_FALSE(log::enabled(log::Level::info, server));
  log::set_levels(*log::Levels::parse("debug,handoff=off"));
  EXPECT_FALSE(log::enabled(log::Level::error, handoff));
  EXPECT_TRUE(log::enabled(log::Level::debug, server));
  log::set_level(log::Level::off);
  EXPECT_FALSE(log::enabled(log::Level::error, server));
}

}  // namespace
}  // namespace tandem
