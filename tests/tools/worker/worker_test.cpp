// Runs `tandem worker` as a real process; the test plays its engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "cpu_lora/worker_process/confine.h"
#include "shm/jobs.h"
#include "shm/mailbox.h"
#include "shm/region.h"
#include "tests/cpu_lora/worker/delta_case.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using testing::HasSubstr;

template <typename Condition>
bool comes_true(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(40);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::usleep(200);
  }
  return true;
}

// Returns the value of the line "NAME:\tvalue" in /proc/PID/status.
std::string status_of(std::uint32_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":\t")) return line.substr(name.size() + 2);
  }
  return "nothing";
}

class WorkerCommand : public testing::Test {
 protected:
  void SetUp() override {
    auto mailbox = Mailbox::create({DType::bf16, 2, 16, 1024, 256, 64}, -1);
    ASSERT_TRUE(mailbox.ok()) << mailbox.status().message();
    mailbox_ = std::make_unique<Mailbox>(std::move(*mailbox));
    auto arena = ShmRegion::create("arena", case_.arena().size());
    ASSERT_TRUE(arena.ok()) << arena.status().message();
    arena_ = std::move(*arena);
    std::memcpy(arena_.data(), case_.arena().data(), case_.arena().size());
  }

  std::vector<std::string> command(int worker_slot, int engine = ::getpid()) const {
    return {"worker",
            "--inbox",
            mailbox_->inbox_region().name(),
            "--outbox",
            mailbox_->outbox_region().name(),
            "--arena",
            arena_.name(),
            "--worker-slot",
            std::to_string(worker_slot),
            "--cpu",
            "-1",
            "--node",
            "0",
            "--spin-ms",
            "5",
            "--engine-pid",
            std::to_string(engine)};
  }
  WorkerSlot& worker_slot(int index) const { return mailbox_->worker_slot(index); }
  bool is_up(int index) const {
    return comes_true([&] { return worker_slot(index).state.load() >= WorkerSlotState::working; });
  }
  void offer(std::uint64_t sequence, const GroupJob& job) const {
    const std::vector<std::byte> x = case_.x();
    std::memcpy(mailbox_->x_of(0), x.data(), x.size());
    publish_job(*mailbox_, sequence, &job, 1);
    wake_workers(*mailbox_);
    mailbox_->doorbells()[0].value.store(doorbell_of(sequence, Ticket::cpu),
                                         std::memory_order_release);
  }

  DeltaCase case_{{10, 1024, {16, 32}, {64, 128}}, DType::bf16, 99};
  std::unique_ptr<Mailbox> mailbox_;
  ShmRegion arena_;
};

TEST_F(WorkerCommand, ComputesWithAnotherWhatTheMailboxAsksFor) {
  Process first(command(0));
  Process second(command(1));
  ASSERT_TRUE(is_up(0) && is_up(1));
  const GroupJob job = case_.job(0x3, JobSplit::columns);
  // On a loaded machine a worker may give up on a delayed peer, so this repeats.
  int answers = 0;
  for (std::uint64_t n = 1; n <= 50 && answers < 3; ++n) {
    offer(n, job);
    ASSERT_TRUE(comes_true([&] { return quiet(*mailbox_, 0x3, n); }));
    if (worker_slot(0).done[0].load(std::memory_order_acquire) != n) continue;
    if (worker_slot(1).done[0].load(std::memory_order_acquire) != n) continue;
    ++answers;
    EXPECT_EQ(case_.check_y(mailbox_->y_of(0), std::byte{0}), "");
  }
  EXPECT_EQ(answers, 3);
  stop_workers(*mailbox_);
  for (Process* process : {&first, &second}) {
    EXPECT_EQ(process->wait(), 0);
    EXPECT_EQ(process->output(), "");
    EXPECT_EQ(process->error(), "");
  }
  EXPECT_EQ(worker_slot(0).pid.load(), 0U);
}

TEST_F(WorkerCommand, GivesUpWhatItDoesNotNeed) {
  Process process(command(0));
  ASSERT_TRUE(is_up(0));
  const std::uint32_t pid = worker_slot(0).pid.load();
  EXPECT_EQ(status_of(pid, "NoNewPrivs"), "1");
  EXPECT_EQ(status_of(pid, "CapEff"), "0000000000000000");
  EXPECT_EQ(status_of(pid, "CapPrm"), "0000000000000000");
  EXPECT_EQ(status_of(pid, "CapAmb"), "0000000000000000");
  EXPECT_EQ(status_of(pid, "Threads"), "1");
  if (!confines_system_calls()) GTEST_SKIP() << "the rest is left out under a sanitizer";
  EXPECT_EQ(status_of(pid, "Seccomp"), "2");
  if (::geteuid() == 0) {
    EXPECT_EQ(status_of(pid, "CapBnd"), "0000000000000000");
    EXPECT_EQ(status_of(pid, "Uid"), "65534\t65534\t65534\t65534");
    EXPECT_EQ(status_of(pid, "Gid"), "65534\t65534\t65534\t65534");
  }
}

TEST_F(WorkerCommand, EndsWithItsEngine) {
  const pid_t engine = ::fork();
  if (engine == 0) {
    for (;;) ::pause();
  }
  Process process(command(0, engine));
  ASSERT_TRUE(is_up(0));
  ::kill(engine, SIGKILL);
  EXPECT_EQ(process.wait(), 0);
  ::waitpid(engine, nullptr, 0);
  EXPECT_EQ(worker_slot(0).pid.load(), 0U);
}

TEST_F(WorkerCommand, EndsOnTermAndLeavesInterruptsToItsEngine) {
  Process process(command(0));
  ASSERT_TRUE(is_up(0));
  process.send_signal(SIGINT);
  const std::uint64_t before = worker_slot(0).heartbeat.load();
  EXPECT_TRUE(comes_true([&] { return worker_slot(0).heartbeat.load() > before + 1; }));
  process.send_signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0);
}

TEST_F(WorkerCommand, GoesWithoutAWordWhenItsEngineOrItsRegionsAreGone) {
  const auto goes = [](const std::vector<std::string>& args) {
    const Finished done = run_tandem(args);
    EXPECT_EQ(done.error, "");
    return done.status == kExitEngineGone;
  };
  for (const std::size_t name : {2, 4, 6}) {
    std::vector<std::string> gone = command(0);
    gone[name] = "/tandem-1-00000000-gone";
    EXPECT_TRUE(goes(gone)) << gone[name - 1];
  }
  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  ::waitpid(ended, nullptr, 0);
  EXPECT_TRUE(goes(command(0, ended)));
}

TEST_F(WorkerCommand, EndsBeforeItWorksWhenItsEngineIsEnding) {
  stop_workers(*mailbox_);
  const Finished done = run_tandem(command(0));
  EXPECT_EQ(done.status, 0);
  EXPECT_EQ(done.error, "");
  EXPECT_EQ(worker_slot(0).progress.load(), 0U);
  EXPECT_EQ(worker_slot(0).pid.load(), 0U);
}

TEST_F(WorkerCommand, SaysWhyItCannotWork) {
  const auto refusal = [&](std::vector<std::string> args, int status) {
    const Finished done = run_tandem(args);
    EXPECT_EQ(done.status, status);
    return done.error;
  };
  worker_slot(1).pid.store(4711);
  EXPECT_THAT(refusal(command(1), 1), HasSubstr("worker slot 1 is taken by process 4711"));
  EXPECT_THAT(refusal(command(7), 2), HasSubstr("worker slot 7 of a mailbox with 2 worker slots"));
  mailbox_->inbox().version.store(0);
  EXPECT_THAT(refusal(command(0), 1), HasSubstr("not ready"));

  const Finished bare = run_tandem({"worker"});
  EXPECT_EQ(bare.status, 2);
  EXPECT_THAT(bare.error, HasSubstr("inbox is missing"));
}

}  // namespace
}  // namespace tandem
