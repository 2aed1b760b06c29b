// A WorkerPool with threads of the test as workers: on the engine's own mailbox, with faults on
// demand. A thread emulates the death of a killed process as soon as it can.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "cpu_lora/worker/worker_loop.h"
#include "cpu_lora/worker_pool/worker_pool.h"
#include "engine/handoff/handoff_options.h"
#include "shm/jobs.h"

namespace tandem::test {

// The behaviour of the workers, which may change while they run. Outlives the pool.
struct WorkerFaults {
  std::atomic<int> silent = 0;        // number of worker slots, from the first, that never answer
  std::atomic<int> stall_ms = 0;      // delay of some iterations of every worker
  std::atomic<bool> garbage = false;  // a thread overwrites every control word of workers
  std::atomic<std::uint32_t> dead_groups = 0;  // mask of groups without a live worker
  double peer_ms = 20'000;                     // long, because the machine may be busy
  std::atomic<std::uint64_t> clears = 0;
};

class InProcessPool final : public WorkerPool {
 public:
  InProcessPool(const WorkerPoolOptions& options, WorkerFaults& faults)
      : faults_(faults), spin_ms_(options.spin_ms) {
    for (const WorkerGroupOptions& group : options.groups) {
      Group& made = groups_.emplace_back();
      made.mailbox = group.mailbox;
      auto arena = ShmRegion::open(group.arena, ShmRegion::Access::read_only);
      TANDEM_CHECK(arena.ok(), "{}", arena.status().message());
      made.arena = std::move(arena).value();
      for (std::size_t worker_slot = 0; worker_slot < group.cpus.size(); ++worker_slot) {
        made.kill.push_back(std::make_unique<std::atomic<bool>>(false));
      }
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::size_t worker_slot = 0; worker_slot < groups_[g].kill.size(); ++worker_slot) {
        threads_.emplace_back(
            [this, g, worker_slot] { live_and_die(groups_[g], static_cast<int>(worker_slot)); });
      }
    }
    threads_.emplace_back([this] { write_garbage(); });
  }
  ~InProcessPool() override {
    stop_ = true;
    for (Group& group : groups_) stop_workers(*group.mailbox);
    for (std::thread& thread : threads_) thread.join();
  }

  std::uint64_t live(int group) const override {
    if ((faults_.dead_groups >> group & 1U) != 0) return 0;
    const Group& g = groups_[static_cast<std::size_t>(group)];
    std::uint64_t mask = 0;
    for (std::size_t worker_slot = 0; worker_slot < g.kill.size(); ++worker_slot) {
      const WorkerSlotState state = g.mailbox->worker_slot(static_cast<int>(worker_slot))
                                        .state.load(std::memory_order_acquire);
      if (state == WorkerSlotState::working || state == WorkerSlotState::sleeping) {
        mask |= std::uint64_t{1} << worker_slot;
      }
    }
    return mask;
  }
  // No worker here writes another pid into its worker slot.
  std::uint64_t held(int) const override { return 0; }
  void clear(int group, std::uint64_t sequence) override {
    ++faults_.clears;
    Group& g = groups_[static_cast<std::size_t>(group)];
    for (std::size_t worker_slot = 0; worker_slot < g.kill.size(); ++worker_slot) {
      const std::uint64_t progress = g.mailbox->worker_slot(static_cast<int>(worker_slot)).progress;
      if (progress != sequence) *g.kill[worker_slot] = true;
    }
  }
  std::vector<WorkerStatus> status() const override {
    std::vector<WorkerStatus> all;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::size_t i = 0; i < groups_[g].kill.size(); ++i) {
        WorkerStatus& status = all.emplace_back();
        status.group = static_cast<int>(g);
        status.worker_slot = static_cast<int>(i);
        status.jobs = groups_[g].mailbox->worker_slot(status.worker_slot).jobs;
      }
    }
    return all;
  }
  bool wait_until_live(double timeout_s) const override {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const std::uint64_t all = (std::uint64_t{1} << groups_[g].kill.size()) - 1;
      while (live(static_cast<int>(g)) != all) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::yield();
      }
    }
    return true;
  }

 private:
  struct Group {
    Mailbox* mailbox = nullptr;
    ShmRegion arena;
    std::vector<std::unique_ptr<std::atomic<bool>>> kill;
  };

  void live_and_die(Group& group, int worker_slot) {
    std::atomic<bool>& kill = *group.kill[static_cast<std::size_t>(worker_slot)];
    std::mt19937 random(static_cast<unsigned>(worker_slot));
    while (!stop_) {
      kill = false;
      if (worker_slot < faults_.silent) {
        keep_silent(group.mailbox->worker_slot(worker_slot), kill);
      } else {
        auto loop = WorkerLoop::create(
            *group.mailbox, {group.arena.data(), group.arena.bytes()},
            {.worker_slot = worker_slot, .spin_ms = spin_ms_, .peer_ms = faults_.peer_ms});
        if (loop.ok()) {
          loop->run(kill, [&] {
            const int stall_ms = faults_.stall_ms;
            if (stall_ms > 0 && random() % 4 == 0) nap(std::chrono::milliseconds(stall_ms));
            return !stop_;
          });
        }
      }
      if (kill) nap(std::chrono::milliseconds(5));
    }
  }
  void keep_silent(WorkerSlot& worker_slot, const std::atomic<bool>& kill) {
    worker_slot.pid = 1;
    worker_slot.state = WorkerSlotState::working;
    while (!stop_ && !kill) nap(std::chrono::milliseconds(1));
    worker_slot.state = WorkerSlotState::empty;
    worker_slot.pid = 0;
  }
  void write_garbage() {
    std::mt19937_64 random(7);
    while (!stop_) {
      nap(std::chrono::milliseconds(1));
      if (!faults_.garbage) continue;
      const Group& group = groups_[random() % groups_.size()];
      WorkerSlot& worker_slot =
          group.mailbox->worker_slot(static_cast<int>(random() % group.kill.size()));
      const std::uint64_t value = random() % 2 == 0 ? random() : random() % 1000;
      const auto g = static_cast<std::size_t>(random() % 4);
      switch (random() % 6) {
        case 0:
          worker_slot.done[g] = value;
          break;
        case 1:
          worker_slot.shrunk[g] = value;
          break;
        case 2:
          worker_slot.progress = value;
          break;
        case 3:
          worker_slot.heartbeat = value;
          break;
        case 4:
          worker_slot.woke_ns = value;
          break;
        default:
          worker_slot.state = static_cast<WorkerSlotState>(value % 4);
      }
    }
  }
  void nap(std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (!stop_ && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  WorkerFaults& faults_;
  const double spin_ms_;
  std::atomic<bool> stop_ = false;
  std::vector<Group> groups_;
  std::vector<std::thread> threads_;
};

// One group of `workers` workers that sleep soon, so a step may begin while some still wake up.
inline HandoffOptions in_process_workers(int workers, WorkerFaults& faults) {
  HandoffOptions options;
  options.spin_ms = 1;
  HandoffOptions::Group group;
  group.cpus.resize(static_cast<std::size_t>(workers), -1);
  options.groups.push_back(group);
  options.start_workers =
      [&faults](const WorkerPoolOptions& pool) -> Result<std::unique_ptr<WorkerPool>> {
    auto made = std::make_unique<InProcessPool>(pool, faults);
    TANDEM_CHECK(made->wait_until_live(60), "workers do not start");
    return std::unique_ptr<WorkerPool>(std::move(made));
  };
  return options;
}

}  // namespace tandem::test
