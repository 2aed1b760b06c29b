#include "tools/profile/measure/busy_others.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>

#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A fake /proc with two CPUs; times are in hundredths of a second, as in Linux.
class Machine {
 public:
  Machine() : ticks_(sysconf(_SC_CLK_TCK)) {
    std::filesystem::create_directories(dir_.path() / "self");
    dir_.write("self/cgroup", "0::/kitchen\n");
    std::filesystem::create_directories(dir_.path() / "groups" / "kitchen");
    cpus(0, 0, 0);
    throttled(0);
    process(getpid(), "tandem", 0);
  }

  BusyOthers::Paths paths() const { return {dir_.path(), dir_.path() / "groups"}; }
  void cpus(double first_busy_s, double second_busy_s, double stolen_s) {
    dir_.write("stat",
               fmt::format("cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 {} 0 0 7 7 0 0 {} 0 0\n"
                           "cpu1 0 0 {} 7 7 0 0 0 0 0\nintr 1 2 3\n",
                           first_busy_s * ticks(), stolen_s * ticks(), second_busy_s * ticks()));
  }
  void process(std::int64_t id, std::string_view name, double seconds) {
    std::filesystem::create_directories(dir_.path() / std::to_string(id));
    dir_.write(fmt::format("{}/stat", id),
               fmt::format("{} ({}) R 1 1 1 0 -1 4194304 1 2 3 4 {} {} 0 0 20 0 1 0 5\n", id, name,
                           seconds * ticks() / 2, seconds * ticks() / 2));
  }
  void throttled(double seconds) {
    dir_.write("groups/kitchen/cpu.stat",
               fmt::format("usage_usec 5\nnr_throttled 3\nthrottled_usec {}\n", seconds * 1e6));
  }

 private:
  double ticks() const { return static_cast<double>(ticks_); }

  testing::TempDir dir_;
  long ticks_;
};

TEST(BusyOthers, NobodyIsNamedOnAnIdleMachine) {
  Machine machine;
  ManualClock clock;
  BusyOthers others(clock, {}, machine.paths());
  machine.cpus(10, 8, 0);
  machine.process(getpid(), "tandem", 18);
  clock.advance(std::chrono::seconds(10));
  others.look();
  EXPECT_EQ(others.text(), "");
  EXPECT_EQ(others.share(), 0);
}

TEST(BusyOthers, TheBusiestAreNamedWithWhatTheyHad) {
  Machine machine;
  machine.process(71, "old", 500);
  ManualClock clock;
  BusyOthers others(clock, {}, machine.paths());
  machine.cpus(9, 9, 0);
  machine.process(getpid(), "tandem", 8);
  machine.process(71, "old", 500);
  machine.process(72, "a (strange) na\x1b[mme", 6);
  machine.process(73, "cc1plus", 2);
  machine.process(74, "cc1plus", 1);
  machine.process(75, "tiny", 0.01);
  clock.advance(std::chrono::seconds(10));
  others.look();
  EXPECT_EQ(others.text(),
            "others had 10.0 of the 20.0 s of these CPUs: a (strange) na?[mme (process 72) 6.0 s, "
            "cc1plus (2 processes) 3.0 s");
  EXPECT_DOUBLE_EQ(others.share(), 0.5);
}

TEST(BusyOthers, WhatOtherCpusDoIsNoMatter) {
  Machine machine;
  ManualClock clock;
  BusyOthers others(clock, {0}, machine.paths());
  machine.cpus(9, 10, 0);
  machine.process(getpid(), "tandem", 9);
  machine.process(80, "elsewhere", 10);
  clock.advance(std::chrono::seconds(10));
  others.look();
  EXPECT_EQ(others.text(), "");
}

TEST(BusyOthers, TheHostAndAQuotaAreNamed) {
  Machine machine;
  ManualClock clock;
  BusyOthers others(clock, {}, machine.paths());
  machine.cpus(5, 0, 3);
  machine.throttled(2);
  machine.process(getpid(), "tandem", 5);
  clock.advance(std::chrono::seconds(10));
  others.look();
  EXPECT_EQ(others.text(),
            "the host took 3.0 s away for other guests; a CPU quota stopped this "
            "process for 2.0 s");
  EXPECT_DOUBLE_EQ(others.share(), 0.25);
}

// Between two looks a process came and went: its name is unknown, but its time is counted.
TEST(BusyOthers, LooksAddUpAndAnIdThatIsUsedAgainCountsAnew) {
  Machine machine;
  machine.process(90, "first", 4);
  ManualClock clock;
  BusyOthers others(clock, {}, machine.paths());
  for (int look = 1; look <= 2; ++look) {
    machine.cpus(look * 2, 0, 0);
    machine.process(90, look == 1 ? "first" : "second", look == 1 ? 5 : 1);
    clock.advance(std::chrono::seconds(5));
    others.look();
  }
  EXPECT_THAT(others.text(), HasSubstr("others had 4.0 of the 20.0 s"));
  EXPECT_THAT(others.text(), HasSubstr("first (process 90) 1.0 s"));
  EXPECT_THAT(others.text(), HasSubstr("second (process 90) 1.0 s"));
}

TEST(BusyOthers, WhereProcIsHiddenNothingIsCounted) {
  const testing::TempDir dir;
  ManualClock clock;
  BusyOthers others(clock, {}, {dir.path() / "none", dir.path() / "none"});
  clock.advance(std::chrono::seconds(1));
  others.look();
  EXPECT_EQ(others.text(), "");
  EXPECT_EQ(others.share(), 0);
}

}  // namespace
}  // namespace tandem
