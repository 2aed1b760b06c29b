// Tests the pool with real processes (fake_worker.cpp), which die in all possible ways.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cpu_lora/worker_pool/worker_pool_fixture.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(WorkerPoolTest, StartsAWorkerForEachCoreThatIsNamed) {
  start_and_wait();
  EXPECT_EQ(pool_->live(0), 0b11U);
  const std::vector<WorkerStatus> all = pool_->status();
  ASSERT_EQ(all.size(), 2U);
  for (int worker_slot = 0; worker_slot < 2; ++worker_slot) {
    const WorkerStatus& one = all[static_cast<std::size_t>(worker_slot)];
    EXPECT_EQ(one.worker_slot, worker_slot);
    EXPECT_EQ(one.cpu, worker_slot == 0 ? 4 : 7);
    EXPECT_EQ(mailbox_->worker_slot(worker_slot).cpu.load(), worker_slot == 0 ? 4U : 7U);
    EXPECT_EQ(static_cast<std::uint32_t>(one.pid), mailbox_->worker_slot(worker_slot).pid.load());
    EXPECT_TRUE(one.ours);
    EXPECT_FALSE(one.left_out);
    EXPECT_EQ(one.restarts, 0U);
    EXPECT_EQ(one.last_end, "");
  }
}

// A container's cpuset may shrink, and grow again.
TEST_F(WorkerPoolTest, MovesWorkersWhoseCoresAreTakenAway) {
  std::atomic<int> stage = 0;
  const std::vector<std::vector<int>> allowed = {{4, 7}, {4, 5}, {4}, {4, 6}};
  const std::vector<std::vector<int>> wanted = {{4, 7}, {4, 5}, {4, -1}, {4, 6}};
  options_.allowed_every_ms = 1;
  options_.allowed = [&] { return allowed[static_cast<std::size_t>(stage.load())]; };
  options_.place = [&](const WorkerPoolOptions::CpusOfGroups&, const std::vector<int>& now) {
    const auto at = std::ranges::find(allowed, now) - allowed.begin();
    return WorkerPoolOptions::CpusOfGroups{wanted[static_cast<std::size_t>(at)]};
  };
  start_and_wait();
  const pid_t stays = worker(0).pid;
  const pid_t moved = worker(1).pid;
  stage = 1;
  EXPECT_TRUE(is_replaced(1, moved));
  EXPECT_EQ(worker(1).cpu, 5);
  EXPECT_EQ(mailbox_->worker_slot(1).cpu.load(), 5U);
  EXPECT_THAT(worker(1).last_end, HasSubstr("may not run on core 7 any more; it goes to core 5"));
  stage = 2;
  EXPECT_TRUE(eventually([&] { return worker(1).pid == 0 && !is_live(1); }));
  stage = 3;
  EXPECT_TRUE(eventually([&] { return is_live(1) && worker(1).cpu == 6; }));
  EXPECT_EQ(worker(0).pid, stays);
  pool_.reset();
}

TEST_F(WorkerPoolTest, WithoutCoresHasNoWorkers) {
  options_.groups[0].cpus.clear();
  start_and_wait();
  EXPECT_EQ(pool_->live(0), 0U);
  EXPECT_TRUE(pool_->status().empty());
}

TEST_F(WorkerPoolTest, KeepsTheWorkersOfTwoMailboxesApart) {
  auto other = Mailbox::create({DType::f32, 3, 8, 8, 8, 8}, -1);
  ASSERT_TRUE(other.ok());
  options_.groups.push_back(
      {.mailbox = &*other, .arena = "1=behind", .node = -1, .cpus = {8, 9, 10}});
  start_and_wait();
  EXPECT_EQ(pool_->live(0), 0b11U);
  EXPECT_EQ(pool_->live(1), 0b111U);
  const GroupJob job;
  publish_job(*other, 5, &job, 1);
  pool_->clear(1, 5);
  EXPECT_TRUE(eventually([&] { return quiet(*other, 0b111, 5); }));
  EXPECT_EQ(worker(0).restarts, 0U);
  pool_.reset();
}

TEST_F(WorkerPoolTest, RefusesMoreCoresThanWorkerSlotsAndCoresNamedTwice) {
  options_.groups[0].cpus = {1, 2, 3, 4};
  EXPECT_THAT(WorkerPool::start(options_).status().message(), HasSubstr("4 CPU workers"));
  EXPECT_THAT(WorkerPool::start(options_).status().message(), HasSubstr("3 worker slots"));
  options_.groups[0].cpus = {1, 1};
  EXPECT_THAT(WorkerPool::start(options_).status().message(), HasSubstr("core 1 is named twice"));
}

TEST_F(WorkerPoolTest, GivesItsWorkersNeitherSecretsNorDescriptors) {
  ::setenv("TANDEM_API_KEY", "secret", 1);
  start_and_wait();
  ::unsetenv("TANDEM_API_KEY");
  const std::string folder = "/proc/" + std::to_string(worker(0).pid);
  std::stringstream environment;
  environment << std::ifstream(folder + "/environ").rdbuf();
  EXPECT_THAT(environment.str(), Not(HasSubstr("secret")));
  EXPECT_EQ(std::filesystem::read_symlink(folder + "/fd/0"), "/dev/null");
  for (const auto& each : std::filesystem::directory_iterator(folder + "/fd")) {
    const std::string file = std::filesystem::read_symlink(each.path());
    const bool own = std::stoi(each.path().filename()) <= 2 || file.starts_with("/dev/shm/tandem-");
    EXPECT_TRUE(own) << file;
  }
}

TEST_F(WorkerPoolTest, ReplacesAWorkerThatIsKilled) {
  start_and_wait();
  const pid_t pid = worker(1).pid;
  const pid_t other = worker(0).pid;
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  EXPECT_TRUE(is_replaced(1, pid));
  EXPECT_TRUE(is_gone(pid));
  EXPECT_EQ(worker(1).last_end, "signal 9 (Killed)");
  EXPECT_EQ(worker(1).restarts, 1U);
  EXPECT_EQ(worker(0).pid, other);
}

TEST_F(WorkerPoolTest, TakesADeadWorkersWorkerSlotAwayAtOnce) {
  options_.first_pause_ms = options_.last_pause_ms = 1e7;
  start_and_wait("behind");
  publish(1);
  EXPECT_FALSE(quiet(*mailbox_, 1, 1));
  ASSERT_EQ(::kill(worker(0).pid, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return quiet(*mailbox_, 1, 1); }));
  EXPECT_EQ(mailbox_->worker_slot(0).state.load(), WorkerSlotState::empty);
  EXPECT_EQ(pool_->live(0), 0b10U);
  EXPECT_EQ(worker(0).pid, 0);
}

TEST_F(WorkerPoolTest, KillsAndReplacesAWorkerThatIsStopped) {
  options_.heartbeat_ms = 100;
  start_and_wait();
  const pid_t pid = worker(0).pid;
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  EXPECT_TRUE(is_replaced(0, pid));
  EXPECT_THAT(worker(0).last_end, HasSubstr("signal 9 (Killed), because"));
  EXPECT_THAT(worker(0).last_end, HasSubstr("no sign of life for 100 ms"));
}

TEST_F(WorkerPoolTest, LeavesOutAWorkerThatKeepsDying) {
  options_.max_deaths = 5;
  start("0=exit-3");
  EXPECT_TRUE(eventually([&] { return worker(0).left_out; }));
  EXPECT_TRUE(pool_->wait_until_live(kLongS));  // counts the workers that should run
  EXPECT_EQ(pool_->live(0), 0b10U);
  EXPECT_EQ(worker(0).restarts, 4U);
  EXPECT_EQ(worker(0).last_end, "exit status 3");
  EXPECT_EQ(worker(0).pid, 0);
}

TEST_F(WorkerPoolTest, GoesOnWithNoneWhenAllKeepDying) {
  options_.max_deaths = 3;
  start("brief");
  EXPECT_TRUE(eventually([&] { return worker(0).left_out && worker(1).left_out; }));
  EXPECT_TRUE(pool_->wait_until_live(0));
  EXPECT_EQ(pool_->live(0), 0U);
  EXPECT_EQ(worker(0).last_end, "exit status 4");
}

TEST_F(WorkerPoolTest, LeavesOutAWorkerWhoseProgramIsNotThere) {
  options_.program = "/nowhere/tandem";
  options_.max_deaths = 3;
  start();
  EXPECT_TRUE(eventually([&] { return worker(0).left_out && worker(1).left_out; }));
  EXPECT_THAT(worker(0).last_end, HasSubstr("/nowhere/tandem"));
}

TEST_F(WorkerPoolTest, PausesBeforeItStartsADeadWorkerAgain) {
  options_.first_pause_ms = options_.last_pause_ms = 30;
  options_.max_deaths = 4;
  const auto begin = std::chrono::steady_clock::now();
  start("exit-3");
  EXPECT_TRUE(eventually([&] { return worker(0).left_out; }));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(90));
}

TEST_F(WorkerPoolTest, KillsAWorkerThatHasNoHeartbeat) {
  options_.heartbeat_ms = 30;
  options_.max_deaths = 2;
  options_.groups[0].cpus = {4};
  start("mute");
  EXPECT_TRUE(eventually([&] { return worker(0).left_out; }));
  EXPECT_THAT(worker(0).last_end, HasSubstr("no sign of life"));
}

TEST_F(WorkerPoolTest, KillsAWorkerThatIsNeverReady) {
  options_.start_ms = 50;
  options_.max_deaths = 2;
  options_.groups[0].cpus = {4};
  start("unready");
  EXPECT_TRUE(eventually([&] { return worker(0).left_out; }));
  EXPECT_THAT(worker(0).last_end, HasSubstr("not ready after 50 ms"));
  EXPECT_EQ(pool_->live(0), 0U);
}

TEST_F(WorkerPoolTest, KillsWhoIsBehindAndSparesWhoIsNotWhenItClears) {
  start_and_wait("0=behind");
  const pid_t behind = worker(0).pid;
  const pid_t good = worker(1).pid;
  publish(1);
  ASSERT_TRUE(eventually([&] { return quiet(*mailbox_, 0b10, 1); }));
  pool_->clear(0, 1);
  EXPECT_TRUE(eventually([&] { return quiet(*mailbox_, 0b11, 1); }));
  EXPECT_TRUE(is_replaced(0, behind));
  EXPECT_THAT(worker(0).last_end, HasSubstr("job 1 was overdue"));
  EXPECT_EQ(worker(1).pid, good);
  EXPECT_EQ(worker(1).restarts, 0U);
}

TEST_F(WorkerPoolTest, ClearsAStoppedWorkerLongBeforeItsHeartbeatIsMissed) {
  start_and_wait();
  const pid_t pid = worker(0).pid;
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, WUNTRACED), pid);  // it has really stopped
  publish(1);
  pool_->clear(0, 1);
  EXPECT_TRUE(eventually([&] { return quiet(*mailbox_, 0b11, 1); }));
  EXPECT_TRUE(is_replaced(0, pid));
}

TEST_F(WorkerPoolTest, LeavesNoProcessBehind) {
  start_and_wait("1=deaf");
  const pid_t good = worker(0).pid;
  const pid_t deaf = worker(1).pid;
  pool_.reset();
  EXPECT_TRUE(is_gone(good));
  EXPECT_TRUE(is_gone(deaf));
  EXPECT_TRUE(quiet(*mailbox_, 0b111, 1000));
}

TEST_F(WorkerPoolTest, EndsWhileItsWorkersAreStarting) {
  start();
  pool_.reset();
  EXPECT_EQ(mailbox_->worker_slot(0).pid.load(), 0U);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // there is no child
}

// The logger and the workers both write to standard error.
TEST_F(WorkerPoolTest, EndsAtOnceAndQuietlyWithWorkersThatAreNotUpYet) {
  start("unready");
  EXPECT_TRUE(eventually([&] {
    return mailbox_->worker_slot(0).state.load() == WorkerSlotState::starting &&
           mailbox_->worker_slot(1).state.load() == WorkerSlotState::starting;
  }));
  const pid_t pid = worker(0).pid;
  ::testing::internal::CaptureStderr();
  const auto begin = std::chrono::steady_clock::now();
  pool_.reset();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_LT(took.count(), 1.0) << "the time that workers have to end in by themselves";
  EXPECT_TRUE(is_gone(pid));
  EXPECT_TRUE(quiet(*mailbox_, 0b111, 1000));
}

TEST_F(WorkerPoolTest, SaysWhenItHadToKillAWorkerAtItsEnd) {
  start_and_wait("1=deaf");
  ::testing::internal::CaptureStderr();
  pool_.reset();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("CPU worker 0.1"));
  EXPECT_THAT(said, HasSubstr("did not end when asked to"));
  EXPECT_THAT(said, Not(HasSubstr("CPU worker 0.0")));
}

TEST_F(WorkerPoolTest, StartsAgainOnTheMailboxOfAnEarlierPool) {
  start_and_wait();
  pool_.reset();
  start_and_wait();
  EXPECT_EQ(pool_->live(0), 0b11U);
}

TEST(WorkerPoolOfAKilledEngine, LeavesNoOrphanBehind) {
  // This process becomes the parent of orphans, so that it sees how they end.
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  const testing::TempDir dir;
  const std::string file = dir.path() / "pids";
  auto engine = ChildProcess::start({.program = FAKE_ENGINE,
                                     .arguments = {"engine", FAKE_WORKER, file},
                                     .environment = harmless_environment()});
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(file); }));
  std::vector<pid_t> pids;
  std::ifstream lines(file);
  for (pid_t pid = 0; lines >> pid;) pids.push_back(pid);
  ASSERT_EQ(pids.size(), 2U);
  engine->kill(SIGKILL);
  EXPECT_TRUE(eventually([&] { return engine->has_ended(); }));
  for (const pid_t pid : pids) {
    int status = 0;
    pid_t reaped = 0;
    EXPECT_TRUE(eventually([&] { return (reaped = ::waitpid(pid, &status, WNOHANG)) != 0; }));
    EXPECT_EQ(reaped, pid);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }
  EXPECT_FALSE(remove_stale_shm_regions().empty());
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

}  // namespace
}  // namespace tandem
