#include "base/limits/memory_limit.h"

#include <gtest/gtest.h>

#include "tests/base/limits/fake_cgroups.h"

namespace tandem {
namespace {

class MemoryLimits : public ::testing::Test {
 protected:
  void version_2(std::string_view group) {
    fake_.groups(fmt::format("0::{}\n", group));
    fake_.mount("/", "/sys/fs/cgroup", "cgroup2");
  }
  void version_1(std::string_view group) {
    fake_.groups(fmt::format("2:memory:{}\n0::/\n", group));
    fake_.mount("/", "/sys/fs/cgroup/memory", "cgroup", "rw,memory");
  }
  void write_2(const std::string& file, std::string_view text) {
    fake_.write("/sys/fs/cgroup" + file, text);
  }
  void write_1(const std::string& file, std::string_view text) {
    fake_.write("/sys/fs/cgroup/memory" + file, text);
  }
  std::optional<MemoryLimit> read() { return read_memory_limit(fake_.paths()); }
  std::size_t free() {
    const auto limit = read();
    return limit ? limit->free_bytes : 0;
  }

  testing::FakeCgroups fake_;
};

TEST_F(MemoryLimits, AreNoneWhereNoneIsSet) {
  EXPECT_FALSE(read());
  version_2("/a");
  write_2("/a/memory.max", "max\n");
  write_2("/a/memory.high", "max\n");
  write_2("/a/memory.current", "600000\n");
  EXPECT_FALSE(read());
}

TEST_F(MemoryLimits, LeaveWhatTheirGroupHasNotTaken) {
  version_2("/a");
  write_2("/a/memory.max", "1000000\n");
  write_2("/a/memory.current", "900000\n");
  EXPECT_EQ(free(), 100'000U);
  // Cached files of a group are dropped on demand; shared memory is not.
  write_2("/a/memory.stat",
          "anon 300000\nfile 600000\nshmem 300000\ninactive_file 200000\nactive_file 100000\n");
  EXPECT_EQ(free(), 400'000U);
  write_2("/a/memory.max", "500000\n");
  EXPECT_EQ(free(), 0U);
  EXPECT_EQ(read()->bytes, 500'000U);
  EXPECT_EQ(read()->where, fake_.at("/sys/fs/cgroup/a/memory.max"));
}

TEST_F(MemoryLimits, HoldForAllGroupsBelow) {
  version_2("/a/b");
  write_2("/a/b/memory.max", "1000000\n");
  write_2("/a/b/memory.current", "100000\n");
  write_2("/a/memory.max", "2000000\n");
  write_2("/a/memory.current", "1800000\n");
  EXPECT_EQ(free(), 200'000U);
  EXPECT_EQ(read()->where, fake_.at("/sys/fs/cgroup/a/memory.max"));
}

TEST_F(MemoryLimits, AreAlsoThoseThatSlowDown) {
  version_2("/a");
  write_2("/a/memory.max", "1000000\n");
  write_2("/a/memory.high", "700000\n");
  write_2("/a/memory.current", "100000\n");
  EXPECT_EQ(free(), 600'000U);
  EXPECT_EQ(read()->where, fake_.at("/sys/fs/cgroup/a/memory.high"));
}

TEST_F(MemoryLimits, OfVersion1HaveTheirOwnNames) {
  version_1("/docker/x");
  write_1("/docker/x/memory.limit_in_bytes", "9223372036854771712\n");
  write_1("/docker/x/memory.usage_in_bytes", "100000\n");
  write_1("/docker/memory.limit_in_bytes", "1000000\n");
  write_1("/docker/memory.usage_in_bytes", "900000\n");
  write_1("/docker/memory.use_hierarchy", "1\n");
  write_1("/docker/memory.stat",
          "inactive_file 5\ntotal_inactive_file 200000\ntotal_active_file 100000\n");
  EXPECT_EQ(free(), 400'000U);
  EXPECT_EQ(read()->where, fake_.at("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes"));
  // Before 5.11, kernels can have groups whose limit does not apply to those below.
  write_1("/docker/memory.use_hierarchy", "0\n");
  EXPECT_FALSE(read());
}

TEST_F(MemoryLimits, OfVersion1AreKnownWhereTheGroupItselfIsHidden) {
  version_1("/");
  write_1("/memory.limit_in_bytes", "9223372036854771712\n");
  write_1("/memory.usage_in_bytes", "100000\n");
  write_1("/memory.stat", "cache 0\nhierarchical_memory_limit 500000\n");
  EXPECT_EQ(free(), 400'000U);
  EXPECT_EQ(read()->where, "hierarchical_memory_limit of " +
                               fake_.at("/sys/fs/cgroup/memory/memory.stat").string());
}

TEST_F(MemoryLimits, OfMalformedFilesAreNone) {
  version_2("/");
  for (const char* text : {"", "\n", "-1\n", "x", "99999999999999999999999\n"}) {
    write_2("/memory.max", text);
    EXPECT_FALSE(read()) << text;
  }
  write_2("/memory.max", "1000\n");
  write_2("/memory.current", "garbage\n");
  write_2("/memory.stat", "inactive_file\nactive_file x\n" + std::string(100'000, 'y'));
  EXPECT_EQ(free(), 1000U) << "what is used is not known: the limit still holds";
  write_2("/memory.stat", "inactive_file 18446744073709551615\nactive_file 7\n");
  EXPECT_LE(free(), 1000U);
}

TEST(MemoryLimitText, NamesTheFileAndUnits) {
  EXPECT_EQ(to_text(MemoryLimit{536'870'912, 268'435'456, "/c/memory.max"}),
            "268.4 MB free of 536.9 MB (/c/memory.max)");
}

}  // namespace
}  // namespace tandem
