#include "tools/cli/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace tandem {
namespace {

using testing::HasSubstr;

// Reads the output of a Progress through a pipe.
class ProgressOutput : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe2(fds_, O_NONBLOCK | O_CLOEXEC), 0); }
  void TearDown() override {
    close(fds_[0]);
    close(fds_[1]);
  }
  int fd() const { return fds_[1]; }
  std::string written() {
    std::array<char, 4096> text{};
    const ssize_t count = read(fds_[0], text.data(), text.size());
    return count > 0 ? std::string(text.data(), static_cast<std::size_t>(count)) : "";
  }
  ManualClock clock;

 private:
  int fds_[2] = {-1, -1};
};

TEST(Progress, DrawsShareAndSpeed) {
  EXPECT_EQ(Progress::line("loading x", 500, 1000, 2),
            "loading x [###############               ]  50 %  500 B of 1.0 kB, 250 B/s");
  EXPECT_EQ(Progress::line("x", 0, 0, 0), "x [##############################] 100 %  0 B of 0 B");
}

TEST_F(ProgressOutput, RedrawsOneLineOnATerminal) {
  Progress progress("loading", fd(), true, clock);
  progress.update(1, 10);
  EXPECT_EQ(written(), "");  // too early to draw anything
  clock.advance(std::chrono::seconds(1));
  progress.update(5, 10);
  const std::string drawn = written();
  EXPECT_EQ(drawn.front(), '\r');
  EXPECT_THAT(drawn, HasSubstr("50 %"));
  EXPECT_EQ(drawn.find('\n'), std::string::npos);
  progress.finish();
  EXPECT_THAT(written(), HasSubstr("loading: 10 B in 1.00 s, 10 B/s"));
}

TEST_F(ProgressOutput, WritesPlainLinesNowAndThenInALog) {
  Progress progress("loading", fd(), false, clock);
  clock.advance(std::chrono::seconds(1));
  progress.update(1, 10);
  EXPECT_EQ(written(), "");
  clock.advance(std::chrono::seconds(5));
  progress.update(6, 10);
  const std::string line = written();
  EXPECT_EQ(line.find('\r'), std::string::npos);
  EXPECT_EQ(line.back(), '\n');
  progress.finish();
  const std::string last = written();
  EXPECT_EQ(last, "loading: 10 B in 6.00 s, 2 B/s\n");
  progress.finish();
  EXPECT_EQ(written(), "");
}

TEST_F(ProgressOutput, DoesNotCountWhatFollowsTheLastByte) {
  Progress progress("loading", fd(), false, clock);
  clock.advance(std::chrono::seconds(2));
  progress.update(10, 10);
  clock.advance(std::chrono::seconds(1));
  progress.update(8, 10);
  progress.finish();
  EXPECT_EQ(written(), "loading: 10 B in 2.00 s, 5 B/s\n");
}

TEST_F(ProgressOutput, NeverGoesBackWhenThreadsReportOutOfOrder) {
  Progress progress("loading", fd(), true, clock);
  progress.update(8, 10);
  clock.advance(std::chrono::seconds(1));
  progress.update(3, 10);
  EXPECT_THAT(written(), HasSubstr("80 %"));
}

TEST_F(ProgressOutput, APipeIsNoTerminal) {
  EXPECT_FALSE(Progress::is_terminal(fd()));
}

}  // namespace
}  // namespace tandem
