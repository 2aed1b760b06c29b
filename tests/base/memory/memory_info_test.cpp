#include "base/memory/memory_info.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/base/limits/fake_cgroups.h"

namespace tandem {
namespace {

class AvailableMemory : public ::testing::Test {
 protected:
  AvailableMemory() {
    fake_.groups("0::/pod/container\n");
    fake_.mount("/", "/sys/fs/cgroup", "cgroup2");
    fake_.write("/sys/fs/cgroup/pod/container/cgroup.procs", "");
  }
  MemoryRoom read() { return memory_room({fake_.at("/meminfo"), fake_.paths()}); }

  testing::FakeCgroups fake_;
};

TEST_F(AvailableMemory, IsWhatTheKernelSays) {
  EXPECT_EQ(read().free_bytes, std::numeric_limits<std::size_t>::max());
  fake_.write("/meminfo",
              "MemTotal:   24684092 kB\nMemFree:  18577224 kB\nMemAvailable:   2000 kB\n");
  EXPECT_EQ(read().free_bytes, 2000U * 1024);
  EXPECT_FALSE(read().limit);
}

TEST_F(AvailableMemory, IsAsLittleAsAnyCgroupAboveHas) {
  fake_.write("/meminfo", "MemAvailable:   2000 kB\n");
  fake_.write("/sys/fs/cgroup/pod/memory.current", "600000\n");
  fake_.write("/sys/fs/cgroup/pod/memory.max", "5000000\n");
  EXPECT_EQ(read().free_bytes, 2000U * 1024);
  EXPECT_FALSE(read().limit) << "the machine has less";
  fake_.write("/sys/fs/cgroup/pod/memory.max", "1000000\n");
  EXPECT_EQ(read().free_bytes, 400'000U);
  ASSERT_TRUE(read().limit);
  EXPECT_EQ(read().limit->where, fake_.at("/sys/fs/cgroup/pod/memory.max"));
}

TEST(ThisMachine, HasMemory) {
  EXPECT_GT(available_memory(), std::size_t{1} << 20);
}

}  // namespace
}  // namespace tandem
