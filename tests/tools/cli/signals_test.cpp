#include "tools/cli/signals.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

namespace tandem {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// Each case runs in its own process, which must end only through the signal.
class StopSignalsDeath : public testing::Test {
 protected:
  StopSignalsDeath() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static std::unique_ptr<StopSignals> make() {
    auto signals = StopSignals::create().value();
    signals->set_graceful(true);
    return signals;
  }
  static void hang() { std::this_thread::sleep_for(hours(1)); }
  static void stop_reading_standard_error() {
    int ends[2];
    if (pipe(ends) != 0 || fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0) _exit(99);
    while (write(ends[1], "x", 1) == 1) {
    }
    if (fcntl(ends[1], F_SETFL, 0) != 0 || dup2(ends[1], STDERR_FILENO) < 0) _exit(99);
  }
};

TEST_F(StopSignalsDeath, EndTheProcessInTimeWhateverItHangsIn) {
  EXPECT_EXIT(
      {
        const auto signals = make();
        kill(getpid(), SIGTERM);
        signals->wait();
        signals->exit_after(milliseconds(50));
        hang();
      },
      testing::ExitedWithCode(1), "the time to end is over: what still runs is cut off");
}

TEST_F(StopSignalsDeath, EndTheProcessThoughNobodyReadsStandardError) {
  EXPECT_EXIT(
      {
        const auto signals = make();
        stop_reading_standard_error();
        signals->exit_after(Duration(0));
        hang();
      },
      testing::ExitedWithCode(1), "");
}

TEST_F(StopSignalsDeath, EndTheProcessInTimeWithTheStatusOfWhatIsDone) {
  EXPECT_EXIT(
      {
        const auto signals = make();
        signals->set_late_status(0);
        signals->exit_after(milliseconds(1));
        hang();
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(StopSignalsDeath, TakeTheEndOfTheTerminalForASignalLikeOthers) {
  EXPECT_EXIT(
      {
        const auto signals = make();
        kill(getpid(), SIGHUP);
        signals->wait();
        _exit(signals->exit_status(0));
      },
      testing::ExitedWithCode(128 + SIGHUP), "");
}

TEST_F(StopSignalsDeath, LeaveAnIgnoredHangupIgnored) {
  EXPECT_EXIT(
      {
        signal(SIGHUP, SIG_IGN);
        const auto signals = make();
        kill(getpid(), SIGHUP);
        kill(getpid(), SIGTERM);
        signals->wait();
        _exit(signals->exit_status(0));
      },
      testing::ExitedWithCode(128 + SIGTERM), "");
}

TEST_F(StopSignalsDeath, EndTheProcessAtTheSecondSignal) {
  EXPECT_EXIT(
      {
        const auto signals = make();
        kill(getpid(), SIGTERM);
        signals->wait();
        signals->exit_after(hours(1));
        kill(getpid(), SIGINT);
        hang();
      },
      testing::ExitedWithCode(128 + SIGINT), "");
}

TEST_F(StopSignalsDeath, LeaveAProcessThatEndsByItselfAlone) {
  EXPECT_EXIT(
      {
        {
          const auto signals = make();
          signals->exit_after(hours(1));
        }
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tandem
