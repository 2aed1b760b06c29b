#include "shm/core_claims.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Not;

// Makes claims in another process, which lives until the test ends it.
class OtherProcess {
 public:
  explicit OtherProcess(const ClaimedCores& cores) {
    int up[2];
    if (pipe(up) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      const Result<CoreClaimHolder> held = CoreClaimHolder::create(cores);
      const char word = held.ok() ? 'y' : 'n';
      (void)!write(up[1], &word, 1);
      while (true) pause();
    }
    close(up[1]);
    char word = 'n';
    (void)!read(up[0], &word, 1);
    close(up[0]);
    EXPECT_EQ(word, 'y');
  }
  ~OtherProcess() { kill_it(); }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  pid_t pid() const { return pid_; }
  void kill_it() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

ClaimedCores cores_of(std::vector<int> engine, std::vector<int> workers) {
  ClaimedCores cores;
  cores.model = "a-model";
  cores.engine_cpus = std::move(engine);
  cores.worker_cpus = std::move(workers);
  return cores;
}

TEST(CoreClaims, OfAnotherProcessAreSeenWithItsPidAndModel) {
  const OtherProcess other(cores_of({0, 63, 64, 1023, 1024, 65535}, {5, 70000}));
  const std::vector<ClaimedCores> claims = read_core_claims();
  const auto found = std::ranges::find(claims, other.pid(), &ClaimedCores::pid);
  ASSERT_NE(found, claims.end());
  EXPECT_EQ(found->model, "a-model");
  EXPECT_THAT(found->engine_cpus, ElementsAre(0, 63, 64, 1023, 1024, 65535));
  EXPECT_THAT(found->worker_cpus, ElementsAre(5)) << "there is no cpu 70000";
}

TEST(CoreClaims, OfAProcessThatIsKilledAreGone) {
  OtherProcess other(cores_of({0}, {}));
  const pid_t pid = other.pid();
  other.kill_it();
  EXPECT_THAT(read_core_claims(), Not(Contains(Field(&ClaimedCores::pid, pid))));
  (void)remove_stale_shm_regions();
}

TEST(CoreClaims, OfThisProcessAreNoOthers) {
  const Result<CoreClaimHolder> held = CoreClaimHolder::create(cores_of({0}, {1}));
  ASSERT_TRUE(held.ok()) << held.status().message();
  EXPECT_THAT(read_core_claims(), Not(Contains(Field(&ClaimedCores::pid, getpid()))));
}

TEST(CoreClaims, HaveALongModelCutAndEndWithTheirHolder) {
  std::string name;
  {
    ClaimedCores cores = cores_of({0}, {});
    cores.model = std::string(5000, 'm');
    const Result<CoreClaimHolder> held = CoreClaimHolder::create(cores);
    ASSERT_TRUE(held.ok()) << held.status().message();
    bool is_there = false;
    for (const FoundShmRegion& found : find_shm_regions("cores")) {
      if (found.is_own) name = found.name;
      is_there = is_there || found.is_own;
    }
    EXPECT_TRUE(is_there);
  }
  for (const FoundShmRegion& found : find_shm_regions("cores")) EXPECT_NE(found.name, name);
}

TEST(PlanningTurn, IsOneProcessesAtATimeAndWaitsNoLongerThanItsPatience) {
  using std::chrono::milliseconds;
  std::optional<PlanningTurn> first(std::in_place, milliseconds(2000));
  if (!first->has_lock()) GTEST_SKIP() << "somebody else plans";
  const PlanningTurn second(milliseconds(20));
  EXPECT_FALSE(second.has_lock());
  first.reset();
  const PlanningTurn third(milliseconds(2000));
  EXPECT_TRUE(third.has_lock());
}

}  // namespace
}  // namespace tandem
