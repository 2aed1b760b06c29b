// Worker slots that other processes have, or whose contents are wrong.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "tests/cpu_lora/worker_pool/worker_pool_fixture.h"

namespace tandem {
namespace {

TEST_F(WorkerPoolTest, KillsAWorkerThatWritesAnotherPidIntoItsWorkerSlotAndTakesTheWorkerSlotBack) {
  options_.heartbeat_ms = 30;
  options_.max_deaths = 2;
  options_.groups[0].cpus = {4};
  start("squatter");
  EXPECT_TRUE(eventually([&] { return worker(0).left_out; }));
  EXPECT_TRUE(eventually([&] { return mailbox_->worker_slot(0).pid.load() == 0; }));
}

TEST_F(WorkerPoolTest, TakesAWorkerSlotAwayFromAPidThatIsNoWorker) {
  options_.heartbeat_ms = 30;
  auto sleeper = ChildProcess::start({.program = "/bin/sleep", .arguments = {"sleep", "100"}});
  ASSERT_TRUE(sleeper.ok());
  mailbox_->worker_slot(2).pid.store(static_cast<std::uint32_t>(sleeper->pid()));
  start();
  EXPECT_TRUE(eventually([&] { return mailbox_->worker_slot(2).pid.load() == 0; }));
  EXPECT_FALSE(sleeper->has_ended());  // it was no worker and must not be killed
}

TEST_F(WorkerPoolTest, TakesAWorkerSlotAwayFromOtherWorkerSlotsWorkersAndFromItself) {
  start_and_wait();
  const pid_t good = worker(0).pid;
  for (const pid_t pid : {::getpid(), good}) {
    mailbox_->worker_slot(2).pid.store(static_cast<std::uint32_t>(pid));
    const std::uint64_t sequence = mailbox_->inbox().published.load() + 1;
    publish(sequence);
    ASSERT_TRUE(eventually([&] { return quiet(*mailbox_, 0b11, sequence); }));
    pool_->clear(0, sequence);  // progress is overdue, but no worker is killed for it
    EXPECT_TRUE(eventually([&] { return mailbox_->worker_slot(2).pid.load() == 0; }));
  }
  EXPECT_EQ(worker(0).pid, good);
  EXPECT_EQ(worker(0).restarts, 0U);
}

TEST_F(WorkerPoolTest, HoldsAWorkerSlotUntilItsWorkerHasEndedWhateverTheWorkerSlotSays) {
  start_and_wait("0=behind");
  const pid_t behind = worker(0).pid;
  ASSERT_EQ(pool_->live(0), 0b11U);
  publish(1);
  mailbox_->worker_slot(0).pid.store(0);
  EXPECT_TRUE(quiet(*mailbox_, 1, 1));
  EXPECT_FALSE(quiet(*mailbox_, 1, 1, pool_->held(0)));
  pool_->clear(0, 1);
  EXPECT_TRUE(eventually([&] { return quiet(*mailbox_, 1, 1, pool_->held(0)); }));
  EXPECT_TRUE(is_gone(behind));
}

TEST_F(WorkerPoolTest, EndsSomebodyElsesWorkerThatLostItsWorkerSlot) {
  options_.heartbeat_ms = 200;
  start_and_wait();
  ChildProcess foreign = start_foreign(2, "deaf");
  EXPECT_TRUE(eventually([&] { return is_live(2); }));
  mailbox_->worker_slot(2).pid.store(0);
  EXPECT_NE(pool_->held(0) & 0b100, 0U);
  EXPECT_TRUE(eventually([&] { return foreign.has_ended(); }));
  EXPECT_TRUE(eventually([&] { return (pool_->held(0) & 0b100) == 0; }));
}

TEST_F(WorkerPoolTest, LetsWorkersOpenAMailboxThatOthersWroteInto) {
  start_and_wait();
  auto outbox = ShmRegion::open(mailbox_->outbox_region().name(), ShmRegion::Access::read_write);
  ASSERT_TRUE(outbox.ok());
  std::memset(outbox->data(), 0xff, sizeof(OutboxHeader));
  const pid_t pid = worker(0).pid;
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  EXPECT_TRUE(is_replaced(0, pid));
}

TEST_F(WorkerPoolTest, LetsSomebodyElsesWorkerWorkAndDoesNotReplaceIt) {
  options_.heartbeat_ms = 200;
  start_and_wait();
  ChildProcess foreign = start_foreign(2, "good");
  EXPECT_TRUE(eventually([&] { return is_live(2); }));
  EXPECT_EQ(worker(2).pid, foreign.pid());
  EXPECT_FALSE(worker(2).ours);
  EXPECT_EQ(worker(2).cpu, 9);
  foreign.kill(SIGKILL);
  EXPECT_TRUE(eventually([&] { return foreign.has_ended(); }));
  EXPECT_TRUE(eventually([&] { return mailbox_->worker_slot(2).pid.load() == 0; }));
  EXPECT_FALSE(is_live(2));
  EXPECT_TRUE(eventually([&] { return pool_->status().size() == 2; }));
}

TEST_F(WorkerPoolTest, LeavesSomebodyElsesStoppedWorkerOutUntilItGoesOn) {
  options_.heartbeat_ms = 200;
  start_and_wait();
  ChildProcess foreign = start_foreign(2, "good");
  EXPECT_TRUE(eventually([&] { return is_live(2); }));
  foreign.kill(SIGSTOP);
  EXPECT_TRUE(eventually([&] { return !is_live(2); }));
  EXPECT_EQ(mailbox_->worker_slot(2).pid.load(), static_cast<std::uint32_t>(foreign.pid()));
  foreign.kill(SIGCONT);
  EXPECT_TRUE(eventually([&] { return is_live(2); }));
}

TEST_F(WorkerPoolTest, ClearsSomebodyElsesWorkerToo) {
  start_and_wait();
  ChildProcess foreign = start_foreign(2, "behind");
  EXPECT_TRUE(eventually([&] { return is_live(2); }));
  publish(1);
  pool_->clear(0, 1);
  EXPECT_TRUE(eventually([&] { return foreign.has_ended(); }));
  EXPECT_EQ(foreign.end(), "signal 9 (Killed)");
  EXPECT_TRUE(eventually([&] { return quiet(*mailbox_, 0b111, 1); }));
}

TEST_F(WorkerPoolTest, WaitsForAWorkerSlotThatSomebodyElseHas) {
  options_.heartbeat_ms = 200;
  ChildProcess foreign = start_foreign(1, "good");
  EXPECT_TRUE(eventually([&] { return mailbox_->worker_slot(1).pid.load() != 0; }));
  start_and_wait();
  EXPECT_EQ(worker(1).pid, foreign.pid());
  EXPECT_FALSE(worker(1).ours);
  foreign.kill(SIGKILL);
  EXPECT_TRUE(eventually([&] { return foreign.has_ended(); }));
  EXPECT_TRUE(is_replaced(1, foreign.pid()));
  EXPECT_TRUE(worker(1).ours);
}

}  // namespace
}  // namespace tandem
