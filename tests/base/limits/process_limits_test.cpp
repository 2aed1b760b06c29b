#include "base/limits/process_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <system_error>

#include "base/status.h"
#include "tests/support/sanitized.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(LimitRemedy, NamesEachLimitThatIsBroken) {
  ProcessMemory memory;
  memory.as_taken = 90'000'000;
  memory.data_taken = 10'000'000;
  EXPECT_EQ(limit_remedy(memory, ProcessMemory::kNoLimit), "");
  memory.as_limit = 100'000'000;
  EXPECT_EQ(limit_remedy(memory, 10'000'001),
            "; RLIMIT_AS (ulimit -v) lets this process have 100.0 MB of address space, and 90.0 MB "
            "are taken: raise it");
  EXPECT_EQ(limit_remedy(memory, 10'000'000), "") << "so many are left";
  memory.data_limit = 15'000'000;
  EXPECT_THAT(limit_remedy(memory, 6'000'000), HasSubstr("; RLIMIT_DATA (ulimit -d)"));
  EXPECT_THAT(limit_remedy(memory, 6'000'000), Not(HasSubstr("RLIMIT_AS")));
  memory.as_taken = 200'000'000;
  EXPECT_THAT(limit_remedy(memory, 1), HasSubstr("RLIMIT_AS"));
}

TEST(LimitRemedy, IsNoneWithoutLimitsOrForOtherFailures) {
  EXPECT_EQ(limit_remedy(ENOENT), "");
  const ProcessMemory memory = read_process_memory();
  EXPECT_GT(memory.as_taken, kMiB);
  EXPECT_GT(memory.data_taken, 0U);
  EXPECT_LT(memory.data_taken, memory.as_taken);
}

TEST(FailureText, IsThatOfTheException) {
  EXPECT_EQ(failure_text(std::runtime_error("broken")), "broken");
  EXPECT_EQ(failure_text(std::bad_alloc()), "out of memory");
}

// Runs in a child process, because a limit cannot be raised again.
void fail_to_map(decltype(RLIMIT_AS) which, std::size_t limit, const char* name) {
  const rlimit both{limit, limit};
  if (setrlimit(which, &both) != 0) std::exit(1);
  if (mmap(nullptr, 4096 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
      MAP_FAILED) {
    std::exit(2);
  }
  if (errno != ENOMEM) std::exit(3);
  if (errno_status("mmap", ENOMEM).message().find(name) == std::string::npos) std::exit(4);
  if (failure_text(std::bad_alloc()).find(name) == std::string::npos) std::exit(5);
  std::exit(0);
}

TEST(ErrnoStatus, NamesTheLimitThatFailedAMapping) {
  if (sanitized()) GTEST_SKIP() << "the sanitizers' own memory breaks any limit";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(fail_to_map(RLIMIT_AS, 2048 * kMiB, "RLIMIT_AS"), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(fail_to_map(RLIMIT_DATA, 1024 * kMiB, "RLIMIT_DATA"), ::testing::ExitedWithCode(0),
              "");
}

}  // namespace
}  // namespace tandem
