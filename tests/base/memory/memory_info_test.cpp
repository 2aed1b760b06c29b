#include "base/memory/memory_info.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

class AvailableMemory : public ::testing::Test {
 protected:
  void write(const char* file, const char* text) { std::ofstream(dir_.path() / file) << text; }
  std::size_t read() { return available_memory(dir_.path() / "meminfo", dir_.path()); }

  testing::TempDir dir_;
};

TEST_F(AvailableMemory, IsWhatTheKernelSays) {
  EXPECT_EQ(read(), std::numeric_limits<std::size_t>::max());
  write("meminfo", "MemTotal:   24684092 kB\nMemFree:  18577224 kB\nMemAvailable:   2000 kB\n");
  EXPECT_EQ(read(), 2000U * 1024);
}

TEST_F(AvailableMemory, IsAsLittleAsTheCgroupHas) {
  write("meminfo", "MemAvailable:   2000 kB\n");
  write("memory.current", "600000\n");
  write("memory.max", "max\n");
  EXPECT_EQ(read(), 2000U * 1024);
  write("memory.max", "1000000\n");
  EXPECT_EQ(read(), 400000U);
  write("memory.max", "500000\n");
  EXPECT_EQ(read(), 0U);
}

TEST_F(AvailableMemory, CountsFilesThatTheCgroupHoldsAsFree) {
  write("memory.current", "900000\n");
  write("memory.max", "1000000\n");
  write("memory.stat",
        "anon 300000\nfile 600000\nshmem 300000\ninactive_file 200000\n"
        "active_file 100000\n");
  EXPECT_EQ(read(), 400000U);
}

TEST(ThisMachine, HasMemory) {
  EXPECT_GT(available_memory(), std::size_t{1} << 20);
}

}  // namespace
}  // namespace tandem
