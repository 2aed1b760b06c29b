#include "base/limits/cpu_quota.h"

#include <gtest/gtest.h>

#include "tests/base/limits/fake_cgroups.h"

namespace tandem {
namespace {

class Quota : public ::testing::Test {
 protected:
  void version_2(std::string_view group) {
    fake_.groups(fmt::format("0::{}\n", group));
    fake_.mount("/", "/sys/fs/cgroup", "cgroup2");
  }
  void version_1(std::string_view group) {
    fake_.groups(fmt::format("2:cpu,cpuacct:{}\n0::/\n", group));
    fake_.mount("/", "/sys/fs/cgroup/cpu", "cgroup", "rw,cpu,cpuacct");
  }
  void write_1(const std::string& group, std::string_view time, std::string_view period) {
    fake_.write("/sys/fs/cgroup/cpu" + group + "/cpu.cfs_quota_us", time);
    fake_.write("/sys/fs/cgroup/cpu" + group + "/cpu.cfs_period_us", period);
  }
  std::optional<CpuQuota> read() { return read_cpu_quota(fake_.paths()); }
  double cpus() {
    const auto quota = read();
    return quota ? quota->cpus : -1;
  }

  testing::FakeCgroups fake_;
};

TEST_F(Quota, IsNoneWithoutCgroups) {
  EXPECT_FALSE(read());
}

TEST_F(Quota, OfVersion2IsTimeByPeriodOfTheOwnGroup) {
  version_2("/pod");
  fake_.write("/sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
  ASSERT_TRUE(read());
  EXPECT_EQ(read()->cpus, 1.5);
  EXPECT_EQ(read()->where, fake_.at("/sys/fs/cgroup/pod/cpu.max"));
  fake_.write("/sys/fs/cgroup/pod/cpu.max", "max 100000\n");
  EXPECT_FALSE(read());
}

TEST_F(Quota, IsTheSmallestOfAllGroupsAbove) {
  version_2("/a/b/c");
  fake_.write("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
  fake_.write("/sys/fs/cgroup/a/b/cpu.max", "40000 20000\n");
  fake_.write("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
  ASSERT_TRUE(read());
  EXPECT_EQ(read()->cpus, 0.5);
  EXPECT_EQ(read()->where, fake_.at("/sys/fs/cgroup/a/cpu.max"));
  fake_.write("/sys/fs/cgroup/a/b/c/cpu.max", "10000 100000\n");
  EXPECT_EQ(cpus(), 0.1);
}

TEST_F(Quota, OfVersion1IsReadFromItsOwnFiles) {
  version_1("/docker/x");
  write_1("/docker/x", "-1\n", "100000\n");
  write_1("/docker", "300000\n", "100000\n");
  ASSERT_TRUE(read());
  EXPECT_EQ(read()->cpus, 3);
  EXPECT_EQ(read()->where, fake_.at("/sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us"));
  write_1("/docker", "-1\n", "100000\n");
  EXPECT_FALSE(read());
}

TEST_F(Quota, OfAGroupThatTheNamespaceHidesIsFoundWhereTheMountShowsIt) {
  fake_.groups("2:cpu:/\n");
  fake_.mount("/../..", "/sys/fs/cgroup/cpu", "cgroup", "rw,cpu");
  write_1("/pods", "200000", "100000");
  write_1("/pods/own", "-1", "100000");
  fake_.write("/sys/fs/cgroup/cpu/pods/own/cgroup.procs", "4711\n");
  write_1("/pods/other", "1000", "100000");
  fake_.write("/sys/fs/cgroup/cpu/pods/other/cgroup.procs", "1\n");
  EXPECT_EQ(cpus(), 2);
}

TEST_F(Quota, IsNoneWhereAFileIsMalformed) {
  version_2("/");
  for (const char* text : {"", "\n", "max", "50000", "50000\n", "-5 100000", "0 100000", "5 0",
                           "x y", "50000 -1", "99999999999999999999999 1", "50000  100000"}) {
    fake_.write("/sys/fs/cgroup/cpu.max", text);
    EXPECT_FALSE(read()) << text;
  }
  fake_.write("/sys/fs/cgroup/cpu.max", std::string(1 << 20, '7'));
  EXPECT_FALSE(read());
}

TEST(WholeCores, AreRoundedUpAndAtLeastOne) {
  EXPECT_EQ((CpuQuota{0.1, ""}).whole_cores(), 1);
  EXPECT_EQ((CpuQuota{1, ""}).whole_cores(), 1);
  EXPECT_EQ((CpuQuota{1.5, ""}).whole_cores(), 2);
  EXPECT_EQ((CpuQuota{4, ""}).whole_cores(), 4);
  EXPECT_GT((CpuQuota{1e18, ""}).whole_cores(), 100'000);
}

TEST(CpuQuotaText, NamesTheFile) {
  EXPECT_EQ(to_text(CpuQuota{0.5, "/c/cpu.max"}), "0.5 cores of CPU time (/c/cpu.max)");
  EXPECT_EQ(to_text(CpuQuota{1, "/c/cpu.max"}), "1 core of CPU time (/c/cpu.max)");
}

}  // namespace
}  // namespace tandem
