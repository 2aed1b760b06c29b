// Uses cgroups of the real kernel if the test may create one; otherwise it is skipped.
#include "tests/support/real_cgroup.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "base/limits/cpu_quota.h"

namespace tandem {
namespace {

using testing::RealCgroup;

std::optional<RealCgroup> half_a_core() {
  std::optional<RealCgroup> group = RealCgroup::make("cpu");
  return group && group->limit_cpus(0.5) ? std::move(group) : std::nullopt;
}

// The exit status of a child in the group; the child runs `before` first.
template <typename Before>
int read_in_child(const RealCgroup& group, Before before) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!group.enter()) ::_exit(1);
    if (!before()) ::_exit(77);
    const auto quota = read_cpu_quota();
    ::_exit(!quota ? 2 : quota->cpus == 0.5 ? 0 : 3);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(RealCgroup, LimitsAProcessInAGroupBelow) {
  const auto group = half_a_core();
  if (!group) GTEST_SKIP() << "this process may not make a cgroup with a quota";
  EXPECT_EQ(read_in_child(*group, [] { return true; }), 0);
}

TEST(RealCgroup, LimitsAProcessWhoseNamespaceHidesTheGroupsAbove) {
  const auto group = half_a_core();
  if (!group) GTEST_SKIP() << "this process may not make a cgroup with a quota";
  const int status = read_in_child(*group, [] { return ::unshare(CLONE_NEWCGROUP) == 0; });
  if (status == 77) GTEST_SKIP() << "this process may not make a cgroup namespace";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tandem
