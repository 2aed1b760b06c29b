// Runs worker loops in threads; the test plays the engine and the device.
#include "cpu_lora/worker/worker_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "shm/jobs.h"
#include "tests/cpu_lora/worker/delta_case.h"

namespace tandem {
namespace {

using testing::HasSubstr;

// Returns false if the condition is not true within half a minute, far longer than needed.
template <typename Condition>
bool comes_true(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

class WorkerThread {
 public:
  WorkerThread(Mailbox& mailbox, const std::vector<std::byte>& arena, WorkerLoopOptions options)
      : loop_(WorkerLoop::create(mailbox, arena, options)) {
    EXPECT_TRUE(loop_.ok()) << loop_.status().message();
    thread_ = std::thread([this] { loop_->run(stop_, [this] { return alive_.load(); }); });
    WorkerSlot& worker_slot = mailbox.worker_slot(options.worker_slot);
    EXPECT_TRUE(comes_true([&] { return worker_slot.state.load() >= WorkerSlotState::working; }));
  }
  ~WorkerThread() { end(); }
  void end() {
    stop_.store(true);
    join();
  }
  void engine_dies() { alive_.store(false); }
  void join() {
    if (thread_.joinable()) thread_.join();
    loop_ = Status(StatusCode::cancelled, "ended");  // leaves the worker slot
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<bool> alive_{true};
  Result<WorkerLoop> loop_;
  std::thread thread_;
};

class WorkerLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = Mailbox::create({DType::bf16, 4, 32, 1024, 256, 64}, -1);
    ASSERT_TRUE(made.ok()) << made.status().message();
    mailbox_ = std::make_unique<Mailbox>(std::move(*made));
  }
  void TearDown() override {
    workers_.clear();
    if (mailbox_ == nullptr) return;
    for (int worker_slot = 0; worker_slot < 4; ++worker_slot)
      EXPECT_EQ(mailbox_->worker_slot(worker_slot).pid.load(), 0U);
  }

  // Long, because a loaded machine may delay the peers.
  static constexpr double kPatientMs = 20000;

  void start_workers(int count, WorkerLoopOptions options = {.peer_ms = kPatientMs}) {
    for (int worker_slot = 0; worker_slot < count; ++worker_slot) {
      options.worker_slot = worker_slot;
      workers_.push_back(std::make_unique<WorkerThread>(*mailbox_, case_.arena(), options));
    }
  }
  GroupJob job(std::uint64_t workers, std::uint32_t group = 0,
               JobSplit split = JobSplit::columns) const {
    GroupJob made = case_.job(workers, split);
    made.group = group;
    made.first_row = group * 12;
    return made;
  }
  void offer(std::uint64_t sequence, const GroupJob& job, Ticket ticket) {
    const std::vector<std::byte> x = case_.x();
    std::memcpy(mailbox_->x_of(job.first_row), x.data(), x.size());
    std::fill_n(mailbox_->y_of(job.first_row), std::size_t{job.rows} * job.out * 2, kPoison);
    // release: as the device's, pairs with the acquire in the worker's wait for its doorbell.
    mailbox_->doorbells()[job.group].value.store(doorbell_of(sequence, ticket),
                                                 std::memory_order_release);
  }
  bool answered(std::uint64_t sequence, const GroupJob& job) {
    return comes_true([&] {
      for (std::uint64_t left = job.workers; left != 0; left &= left - 1) {
        const WorkerSlot& worker_slot = mailbox_->worker_slot(std::countr_zero(left));
        // acquire: as the device's, pairs with the worker's release of `done`.
        if (worker_slot.done[job.group].load(std::memory_order_acquire) != sequence) return false;
      }
      return true;
    });
  }
  bool left_behind(std::uint64_t sequence, std::uint64_t workers) {
    return comes_true([&] { return quiet(*mailbox_, workers, sequence); });
  }
  bool nobody_answered(std::uint64_t sequence, const GroupJob& job) {
    for (std::uint64_t left = job.workers; left != 0; left &= left - 1) {
      if (mailbox_->worker_slot(std::countr_zero(left)).done[job.group].load() == sequence)
        return false;
    }
    return true;
  }
  std::string check_y(const GroupJob& job) {
    return case_.check_y(mailbox_->y_of(job.first_row), kPoison);
  }

  static constexpr std::byte kPoison{0xff};
  DeltaCase case_{{10, 1024, {16, 0, 8}, {64, 64, 96}}, DType::bf16, 41};
  std::unique_ptr<Mailbox> mailbox_;
  std::vector<std::unique_ptr<WorkerThread>> workers_;
};

TEST_F(WorkerLoopTest, AnswersJobsInTheirOrderBySharing) {
  start_workers(2);
  std::uint64_t sequence = 0;
  for (int round = 0; round < 20; ++round) {
    const JobSplit split = round % 2 == 0 ? JobSplit::columns : JobSplit::tokens;
    const GroupJob groups[] = {job(0x3, 0, split), job(0x2, 1, split)};
    WorkerSlotWeights weights = kEvenWeights;
    weights[0] = static_cast<std::uint8_t>(kEvenWeight + round);
    publish_job(*mailbox_, ++sequence, groups, 2, weights);
    const Ticket ticket = round % 3 == 0 ? Ticket::cpu_xa : Ticket::cpu;
    offer(sequence, groups[0], ticket);
    offer(sequence, groups[1], ticket);
    for (const GroupJob& group : groups) {
      ASSERT_TRUE(answered(sequence, group)) << "round " << round;
      if (ticket == Ticket::cpu) {
        EXPECT_EQ(check_y(group), "") << "round " << round;
      } else {
        EXPECT_EQ(case_.check_v(mailbox_->v_of(group.first_row)), "") << "round " << round;
      }
    }
    retire_before(*mailbox_, sequence);
  }
  EXPECT_TRUE(left_behind(sequence, 0x3));
  EXPECT_EQ(mailbox_->worker_slot(0).jobs.load(), 20U);
  EXPECT_EQ(mailbox_->worker_slot(1).jobs.load(), 40U);
  EXPECT_GT(mailbox_->worker_slot(1).busy_ns.load(), 0U);
  // Six of the ten jobs that were split by columns needed both products.
  std::uint64_t parts = 0;
  for (const int worker_slot : {0, 1}) {
    parts += mailbox_->worker_slot(worker_slot).shared_parts.load();
    EXPECT_GT(mailbox_->worker_slot(worker_slot).shared_ns.load(), 0U);
    EXPECT_LE(mailbox_->worker_slot(worker_slot).shared_ns.load(),
              mailbox_->worker_slot(worker_slot).busy_ns.load());
  }
  EXPECT_NEAR(static_cast<double>(parts), 6 * kWholeJob * (1 + 1.0 / 8), 100);
}

TEST_F(WorkerLoopTest, TakesNoPartInJobsThatAreNotForIt) {
  start_workers(2);
  const GroupJob other = job(0x1);
  publish_job(*mailbox_, 5, &other, 1);  // jobs 1 to 4 are another mailbox's
  EXPECT_TRUE(left_behind(5, 0x2));
  offer(5, other, Ticket::cpu);
  ASSERT_TRUE(answered(5, other));
  EXPECT_EQ(check_y(other), "");
  EXPECT_EQ(mailbox_->worker_slot(1).jobs.load(), 0U);
}

TEST_F(WorkerLoopTest, LeavesJobsBehindThatGoElsewhere) {
  start_workers(2);
  std::uint64_t sequence = 0;
  for (const Ticket ticket : {Ticket::gpu, Ticket::dropped, Ticket::none}) {
    const GroupJob it = job(0x3);
    publish_job(*mailbox_, ++sequence, &it, 1);
    EXPECT_FALSE(quiet(*mailbox_, 0x3, sequence));
    offer(sequence, it, ticket);
    EXPECT_TRUE(left_behind(sequence, 0x3));
    EXPECT_TRUE(nobody_answered(sequence, it));
  }
}

TEST_F(WorkerLoopTest, GivesUpJobsThatAreOverByAHigherDoorbellOrByWord) {
  start_workers(2);
  const GroupJob it = job(0x3);
  for (std::uint64_t n = 1; n <= 3; ++n) publish_job(*mailbox_, n, &it, 1);
  offer(2, it, Ticket::cpu);  // job 1 never rang
  ASSERT_TRUE(answered(2, it));
  EXPECT_EQ(check_y(it), "");
  publish_job(*mailbox_, 4, &it, 1);
  retire_before(*mailbox_, 4);  // nor did job 3
  offer(4, it, Ticket::cpu);
  ASSERT_TRUE(answered(4, it));
  EXPECT_TRUE(nobody_answered(1, it) && nobody_answered(3, it));
  // Job 5 never rings either, and another job takes its place in the ring.
  publish_job(*mailbox_, 5, &it, 1);
  publish_job(*mailbox_, 5 + kNumJobs, &it, 1);
  offer(5 + kNumJobs, it, Ticket::cpu);
  ASSERT_TRUE(answered(5 + kNumJobs, it));
  EXPECT_EQ(check_y(it), "");
}

TEST_F(WorkerLoopTest, GivesUpOnAPeerThatNeverComes) {
  start_workers(1, {.peer_ms = 5});
  const GroupJob it = job(0x3);  // worker slot 1 is empty
  publish_job(*mailbox_, 1, &it, 1);
  offer(1, it, Ticket::cpu);
  EXPECT_TRUE(left_behind(1, 0x1));
  EXPECT_NE(mailbox_->worker_slot(0).done[0].load(), 1U);
  // Garbage written by a peer counts like a peer that never comes.
  mailbox_->worker_slot(1).shrunk[0].store(0xdeadbeefdeadbeef);
  WorkerSlotWeights uneven = kEvenWeights;  // so that both workers have parts of one sum
  uneven[0] = 2 * kEvenWeight;
  publish_job(*mailbox_, 2, &it, 1, uneven);
  offer(2, it, Ticket::cpu_xa);
  EXPECT_TRUE(left_behind(2, 0x1));
  EXPECT_NE(mailbox_->worker_slot(0).done[0].load(), 2U);
  const GroupJob alone = job(0x1);
  publish_job(*mailbox_, 3, &alone, 1);
  offer(3, alone, Ticket::cpu);
  ASSERT_TRUE(answered(3, alone));
  EXPECT_EQ(check_y(alone), "");
}

TEST_F(WorkerLoopTest, WaitsForWeightsThatAreStillBeingReadButNotForEver) {
  std::vector<std::byte> arena = case_.arena();
  const std::uint64_t word = (arena.size() + 3) / 4 * 4;
  arena.resize(word + 4);
  const std::vector<std::byte> weights(arena.begin(),
                                       arena.begin() + static_cast<std::ptrdiff_t>(word));
  std::fill_n(arena.begin(), word, kPoison);
  WorkerThread worker(*mailbox_, arena, {.peer_ms = 5});
  GroupJob it = job(0x1);
  it.present = word;
  it.present_value = 7;
  publish_job(*mailbox_, 1, &it, 1);
  offer(1, it, Ticket::cpu);
  EXPECT_TRUE(left_behind(1, 0x1));
  EXPECT_TRUE(nobody_answered(1, it));

  publish_job(*mailbox_, 2, &it, 1);
  std::memcpy(arena.data(), weights.data(), weights.size());
  std::atomic_ref(*reinterpret_cast<std::uint32_t*>(arena.data() + word))
      .store(7, std::memory_order_release);
  offer(2, it, Ticket::cpu);
  ASSERT_TRUE(answered(2, it));
  EXPECT_EQ(check_y(it), "");
}

TEST_F(WorkerLoopTest, RefusesAndCountsJobsThatLeadOutOfTheArena) {
  start_workers(1);
  GroupJob groups[] = {job(0x1, 0), job(0x1, 1)};
  groups[0].modules[0].a = case_.arena().size();
  publish_job(*mailbox_, 1, groups, 2);
  offer(1, groups[0], Ticket::cpu);
  offer(1, groups[1], Ticket::cpu);
  ASSERT_TRUE(answered(1, groups[1]));
  EXPECT_EQ(check_y(groups[1]), "");
  EXPECT_NE(mailbox_->worker_slot(0).done[0].load(), 1U);
  EXPECT_EQ(mailbox_->worker_slot(0).refused.load(), 1U);
}

TEST_F(WorkerLoopTest, SleepsWithoutJobsAndWakesForOne) {
  start_workers(2, {.spin_ms = 0, .peer_ms = kPatientMs});
  const GroupJob it = job(0x3);
  for (std::uint64_t n = 1; n <= 5; ++n) {
    for (int worker_slot = 0; worker_slot < 2; ++worker_slot) {
      EXPECT_TRUE(comes_true(
          [&] { return mailbox_->worker_slot(worker_slot).state == WorkerSlotState::sleeping; }));
    }
    publish_job(*mailbox_, n, &it, 1);
    wake_workers(*mailbox_);
    offer(n, it, Ticket::cpu);
    ASSERT_TRUE(answered(n, it));
    EXPECT_EQ(check_y(it), "");
  }
}

// Waking a worker announces a job, so it stays awake for a while.
TEST_F(WorkerLoopTest, StaysAwakeForAWhileWhenItIsWokenWithoutAJob) {
  start_workers(1, {.spin_ms = 300, .peer_ms = kPatientMs});
  const auto sleeps = [&] { return mailbox_->worker_slot(0).state == WorkerSlotState::sleeping; };
  ASSERT_TRUE(comes_true(sleeps));
  // A worker that wakes by itself, as it does now and then, is awake only for microseconds.
  EXPECT_TRUE(comes_true([&] {
    wake_workers(*mailbox_);
    while (sleeps()) std::this_thread::sleep_for(std::chrono::microseconds(100));
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (!sleeps() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return !sleeps();
  }));
  EXPECT_TRUE(comes_true(sleeps)) << "nothing came";
}

TEST_F(WorkerLoopTest, SaysWhenItWokeIfItWasWoken) {
  start_workers(1, {.spin_ms = 0, .peer_ms = kPatientMs});
  const auto now = [] {
    const std::chrono::nanoseconds time = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(time.count());
  };
  const WorkerSlot& worker_slot = mailbox_->worker_slot(0);
  ASSERT_TRUE(comes_true([&] { return worker_slot.state == WorkerSlotState::sleeping; }));
  ASSERT_TRUE(comes_true([&] { return worker_slot.heartbeat > 3U; }))
      << "it looks around by itself";
  EXPECT_EQ(worker_slot.woke_ns, 0U);
  const std::uint64_t before = now();
  wake_workers(*mailbox_);
  ASSERT_TRUE(comes_true([&] { return worker_slot.woke_ns != 0; }));
  EXPECT_GE(worker_slot.woke_ns, before);
  EXPECT_LE(worker_slot.woke_ns, now());
}

TEST_F(WorkerLoopTest, BeatsInEveryWait) {
  start_workers(2, {.spin_ms = 0, .peer_ms = kPatientMs});
  const auto beats = [&](int worker_slot) {
    const std::uint64_t before = mailbox_->worker_slot(worker_slot).heartbeat.load();
    return comes_true(
        [&] { return mailbox_->worker_slot(worker_slot).heartbeat.load() > before + 1; });
  };
  EXPECT_TRUE(beats(0));  // while asleep
  const GroupJob it = job(0x1);
  publish_job(*mailbox_, 1, &it, 1);
  wake_workers(*mailbox_);
  EXPECT_TRUE(beats(0));  // while waiting for its doorbell
}

TEST_F(WorkerLoopTest, SaysAgainThatItWorksWhereSomebodyElseHasWrittenOverIt) {
  start_workers(1, {.spin_ms = 60000, .peer_ms = kPatientMs});
  std::atomic<WorkerSlotState>& state = mailbox_->worker_slot(0).state;
  ASSERT_TRUE(comes_true([&] { return state == WorkerSlotState::working; }));
  state = static_cast<WorkerSlotState>(0x77);
  EXPECT_TRUE(comes_true([&] { return state == WorkerSlotState::working; }));
}

TEST_F(WorkerLoopTest, EndsWhenToldAndWhenTheEngineIsGone) {
  start_workers(2, {.spin_ms = 0, .peer_ms = kPatientMs});
  const GroupJob it = job(0x3);
  publish_job(*mailbox_, 1, &it, 1);  // both workers wait for a doorbell
  workers_[0]->engine_dies();
  workers_[0]->join();
  EXPECT_EQ(mailbox_->worker_slot(0).pid.load(), 0U);
  EXPECT_EQ(mailbox_->worker_slot(0).state.load(), WorkerSlotState::empty);
  stop_workers(*mailbox_);
  workers_[1]->join();
  EXPECT_TRUE(quiet(*mailbox_, 0x3, 1));
}

TEST_F(WorkerLoopTest, EndsWhenItsWorkerSlotNamesAnotherProcess) {
  start_workers(2, {.spin_ms = 0, .peer_ms = kPatientMs});
  mailbox_->worker_slot(0).pid = 4711;
  mailbox_->worker_slot(1).pid = 0;
  for (const auto& worker : workers_) worker->join();
  EXPECT_EQ(mailbox_->worker_slot(0).pid.load(), 4711U);  // the slot's owner keeps it
  mailbox_->worker_slot(0).pid = 0;
}

TEST_F(WorkerLoopTest, StartsBehindTheJobsOfItsPredecessor) {
  const GroupJob it = job(0x1);
  publish_job(*mailbox_, 1, &it, 1);
  offer(1, it, Ticket::cpu);
  start_workers(1);
  EXPECT_TRUE(quiet(*mailbox_, 0x1, 1));
  publish_job(*mailbox_, 2, &it, 1);
  offer(2, it, Ticket::cpu);
  ASSERT_TRUE(answered(2, it));
  EXPECT_TRUE(comes_true([&] { return mailbox_->worker_slot(0).jobs.load() == 1; }));
}

TEST_F(WorkerLoopTest, TakesOnlyAnEmptyWorkerSlot) {
  start_workers(1);
  const auto second = WorkerLoop::create(*mailbox_, case_.arena(), {.worker_slot = 0});
  EXPECT_EQ(second.status().code(), StatusCode::already_exists);
  EXPECT_THAT(second.status().message(), HasSubstr("worker slot 0 is taken by process"));
  const auto beyond = WorkerLoop::create(*mailbox_, case_.arena(), {.worker_slot = 4});
  EXPECT_EQ(beyond.status().code(), StatusCode::invalid_argument);
}

}  // namespace
}  // namespace tandem
