#include "base/limits/cgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/base/limits/fake_cgroups.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Cgroups : public ::testing::Test {
 protected:
  // The folders of the only hierarchy.
  std::vector<std::filesystem::path> folders(std::string_view controller) {
    const std::vector<CgroupChain> chains = find_cgroups(controller, fake_.paths());
    return chains.size() == 1 ? chains.front().folders : std::vector<std::filesystem::path>{};
  }

  testing::FakeCgroups fake_;
};

TEST_F(Cgroups, AreNoneWhereNothingIsMountedOrSaid) {
  EXPECT_THAT(find_cgroups("cpu", fake_.paths()), IsEmpty());
  fake_.mount("/", "/sys/fs/cgroup", "cgroup2");
  EXPECT_THAT(find_cgroups("cpu", fake_.paths()), IsEmpty());
}

TEST_F(Cgroups, OfVersion2BeginWithTheProcesssOwn) {
  fake_.groups("0::/a/b\n");
  fake_.mount("/", "/sys/fs/cgroup", "cgroup2");
  fake_.write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_THAT(folders("cpu"),
              ElementsAre(fake_.at("/sys/fs/cgroup/a/b"), fake_.at("/sys/fs/cgroup/a"),
                          fake_.at("/sys/fs/cgroup")));
}

TEST_F(Cgroups, OfVersion1AreThoseOfTheController) {
  fake_.groups("5:memory:/m\n4:cpu,cpuacct:/c\n1:name=systemd:/s\n0::/\n");
  fake_.mount("/", "/sys/fs/cgroup/cpu,cpuacct", "cgroup", "rw,cpu,cpuacct");
  fake_.mount("/", "/sys/fs/cgroup/cpuset", "cgroup", "rw,cpuset");
  fake_.mount("/", "/sys/fs/cgroup/memory", "cgroup", "rw,memory");
  fake_.write("/sys/fs/cgroup/cpu,cpuacct/c/x", "");
  fake_.write("/sys/fs/cgroup/memory/m/x", "");
  EXPECT_THAT(folders("cpu"), ElementsAre(fake_.at("/sys/fs/cgroup/cpu,cpuacct/c"),
                                          fake_.at("/sys/fs/cgroup/cpu,cpuacct")));
  EXPECT_THAT(folders("memory"),
              ElementsAre(fake_.at("/sys/fs/cgroup/memory/m"), fake_.at("/sys/fs/cgroup/memory")));
}

TEST_F(Cgroups, AreFoundBelowTheGroupThatAContainersMountShows) {
  fake_.groups("4:cpu:/docker/abc/sub\n");
  fake_.mount("/docker/abc", "/sys/fs/cgroup/cpu", "cgroup", "rw,cpu");
  fake_.write("/sys/fs/cgroup/cpu/sub/x", "");
  EXPECT_THAT(folders("cpu"),
              ElementsAre(fake_.at("/sys/fs/cgroup/cpu/sub"), fake_.at("/sys/fs/cgroup/cpu")));
}

TEST_F(Cgroups, AreLookedForByPidWhereTheNamespaceHidesTheirNames) {
  fake_.groups("0::/own\n");
  fake_.mount("/../..", "/sys/fs/cgroup", "cgroup2");
  fake_.write("/sys/fs/cgroup/a/b/own/cgroup.procs", "12\n47110\n");
  fake_.write("/sys/fs/cgroup/a/c/own/cgroup.procs", "12\n4711\n");
  fake_.write("/sys/fs/cgroup/a/c/other/cgroup.procs", "4711\n");
  EXPECT_THAT(folders("cpu"),
              ElementsAre(fake_.at("/sys/fs/cgroup/a/c/own"), fake_.at("/sys/fs/cgroup/a/c"),
                          fake_.at("/sys/fs/cgroup/a"), fake_.at("/sys/fs/cgroup")));
}

TEST_F(Cgroups, EndAtTheMountWhereTheOwnGroupCannotBeFound) {
  const auto only_mount = [&] { return ElementsAre(fake_.at("/sys/fs/cgroup")); };
  fake_.mount("/../..", "/sys/fs/cgroup", "cgroup2");
  fake_.groups("0::/\n");
  EXPECT_THAT(folders("cpu"), only_mount()) << "in no folder";
  fake_.groups("0::/gone (deleted)\n");
  EXPECT_THAT(folders("cpu"), only_mount());
}

TEST_F(Cgroups, DoNotLeadOutOfTheirMount) {
  fake_.write("/sys/secret/cpu.max", "1000 100000\n");
  fake_.mount("/", "/sys/fs/cgroup", "cgroup2");
  fake_.groups("0::/../../secret\n");
  EXPECT_THAT(folders("cpu"), ElementsAre(fake_.at("/sys/fs/cgroup")));
  fake_.groups("0::/elsewhere\n");
  EXPECT_THAT(folders("cpu"), ElementsAre(fake_.at("/sys/fs/cgroup")));
}

TEST_F(Cgroups, MayBeMountedAtAPathWithBlanks) {
  fake_.groups("0::/a:b\n");
  fake_.mount("/", "/mnt/c\\040groups", "cgroup2");
  fake_.write("/mnt/c groups/a:b/cpu.max", "");
  EXPECT_THAT(folders("cpu"),
              ElementsAre(fake_.at("/mnt/c groups/a:b"), fake_.at("/mnt/c groups")));
}

TEST_F(Cgroups, OfMalformedFilesAreNone) {
  fake_.mount("/", "/sys/fs/cgroup", "cgroup2");
  for (const char* line : {"", "0", "0:", "0:cpu", "x:cpu:"}) {
    fake_.groups(fmt::format("{}\n", line));
    EXPECT_THAT(find_cgroups("cpu", fake_.paths()), IsEmpty()) << line;
  }
  fake_.groups("0::/" + std::string(1 << 20, 'x') + "\n");
  EXPECT_NO_THROW((void)find_cgroups("cpu", fake_.paths()));
  fake_.write("/proc/mountinfo", "31 23 0:28 / /x rw - cgroup2\n- - -\n31 - cgroup2 x y\n\n");
  EXPECT_THAT(find_cgroups("cpu", fake_.paths()), IsEmpty());
}

TEST_F(Cgroups, ReadNoMoreThanALimitsFileHas) {
  fake_.write("/large", std::string(200'000, '1'));
  EXPECT_LE(read_cgroup_file(fake_.at("/large")).size(), std::size_t{64} << 10);
  EXPECT_EQ(read_cgroup_file(fake_.at("/none")), "");
  EXPECT_EQ(read_cgroup_file(fake_.at("/")), "") << "a folder";
}

TEST(LeadingNumber, IsNoneForWhatIsNoSize) {
  EXPECT_EQ(leading_number("42 17\n"), 42U);
  EXPECT_EQ(leading_number("0"), 0U);
  for (const char* text : {"", "max\n", "-1\n", " 5", "18446744073709551616", "x"}) {
    EXPECT_EQ(leading_number(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tandem
