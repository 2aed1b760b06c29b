#include "base/memory/memory_reserve.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

#include "tests/support/sanitized.h"

namespace tandem {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kHalf = 64 * kMiB;

// Limits the memory that this process may still allocate. Only for child processes, because the
// limit cannot be raised again.
void allow_more(std::size_t bytes) {
  std::ifstream status("/proc/self/statm");
  std::size_t pages = 0;
  status >> pages;
  const rlim_t limit = pages * 4096 + bytes;
  const rlimit both{limit, limit};
  if (setrlimit(RLIMIT_AS, &both) != 0) std::exit(99);
}

std::unique_ptr<char[]> get(std::size_t bytes) {
  return std::unique_ptr<char[]>(new (std::nothrow) char[bytes]);
}

// Exits from the child with the number of the first line that does not hold.
#define HOLDS(...) \
  if (!(__VA_ARGS__)) std::exit(__LINE__ % 90 + 1)

class AtItsEnd {
 public:
  explicit AtItsEnd(std::function<void()> act) : act_(std::move(act)) {}
  ~AtItsEnd() { act_(); }
  AtItsEnd(const AtItsEnd&) = delete;
  AtItsEnd& operator=(const AtItsEnd&) = delete;

 private:
  std::function<void()> act_;
};

void a_first_failure() {
  keep_memory_reserve(kHalf);
  HOLDS(!memory_is_short());
  allow_more(8 * kMiB);
  auto taken = get(48 * kMiB);  // more than is free: uses the first half
  HOLDS(taken != nullptr);
  HOLDS(memory_is_short());
  taken.reset();
  HOLDS(!memory_is_short());
  taken = get(48 * kMiB);  // the first half has been reserved again
  HOLDS(taken != nullptr);
  std::exit(0);
}

void a_second_failure() {
  keep_memory_reserve(kHalf);
  allow_more(8 * kMiB);
  HOLDS(get(1024 * kMiB) == nullptr);  // more than the first half
  HOLDS(!memory_is_short());           // it was not used up, so it is reserved again
  auto first = get(60 * kMiB);
  HOLDS(first != nullptr);
  HOLDS(get(60 * kMiB) == nullptr);  // the second half is not used here ...
  std::unique_ptr<char[]> unwinding;
  try {
    const AtItsEnd gets([&] { unwinding = get(60 * kMiB); });  // ... but it is during unwinding
    throw std::runtime_error("unwinds");
  } catch (const std::runtime_error&) {
  }
  HOLDS(unwinding != nullptr);
  HOLDS(memory_is_short());
  first.reset();
  HOLDS(memory_is_short());  // one half is still in use
  unwinding.reset();
  HOLDS(!memory_is_short());
  std::exit(0);
}

class MemoryReserve : public testing::Test {
 protected:
  void SetUp() override {
    if (sanitized()) {
      GTEST_SKIP() << "the sanitizers' own memory breaks any limit of address space";
    }
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(MemoryReserve, HelpsOutAtAFirstFailureAndIsPutAsideAgain) {
  EXPECT_EXIT(a_first_failure(), testing::ExitedWithCode(0), "");
}

TEST_F(MemoryReserve, ThrowsAtASecondFailureAndLeavesRoomForUnwinding) {
  EXPECT_EXIT(a_second_failure(), testing::ExitedWithCode(0), "");
}

TEST_F(MemoryReserve, IsNeverShortWhereNobodyKeepsOne) {
  EXPECT_FALSE(memory_is_short());
}

}  // namespace
}  // namespace tandem
