#include "cpu_lora/worker_pool/worker_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/log/log.h"
#include "cpu_lora/worker_pool/process_wait.h"
#include "cpu_lora/worker_pool/worker_slot_watch.h"
#include "shm/jobs.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Time for workers to end after the stop flag is set: a part of a job plus the longest sleep.
constexpr Duration kEndGrace = milliseconds(1000);
constexpr Duration kAfterException = milliseconds(20);

Status check(const WorkerPoolOptions& options) {
  TANDEM_CHECK(options.groups.size() <= static_cast<std::size_t>(kMaxMailboxes), "{} groups",
               options.groups.size());
  std::set<int> cpus;
  for (const WorkerGroupOptions& group : options.groups) {
    TANDEM_CHECK(group.mailbox != nullptr, "a group without a mailbox");
    const std::uint32_t worker_slots = group.mailbox->shape().num_worker_slots;
    if (group.cpus.size() > worker_slots) {
      return invalid(
          "{} CPU workers are wanted on node {} and its mailbox has {} worker slots: name fewer "
          "cores in worker_cpus",
          group.cpus.size(), group.node, worker_slots);
    }
    for (const int cpu : group.cpus) {
      if (cpu < 0 || !cpus.insert(cpu).second) {
        return invalid("worker_cpus: core {} is named twice, or is none", cpu);
      }
    }
  }
  return {};
}

class Supervisor final : public WorkerPool {
 public:
  Supervisor(const WorkerPoolOptions& options, ProcessWait wait)
      : options_(options), wait_(std::move(wait)) {
    for (std::size_t g = 0; g < options_.groups.size(); ++g) {
      const WorkerGroupOptions& group = options_.groups[g];
      // relaxed: the workers that read it have not been started yet.
      group.mailbox->inbox().stop.store(0, std::memory_order_relaxed);
      for (std::uint32_t worker_slot = 0; worker_slot < group.mailbox->shape().num_worker_slots;
           ++worker_slot) {
        const int cpu = worker_slot < group.cpus.size() ? group.cpus[worker_slot] : -1;
        watches_.push_back(std::make_unique<WorkerSlotWatch>(options_, static_cast<int>(g),
                                                             static_cast<int>(worker_slot), cpu));
        groups_[g].push_back(watches_.back().get());
      }
    }
    if (options_.allowed) allowed_ = options_.allowed();
    thread_ = std::thread([this] { run(); });
  }

  ~Supervisor() override {
    quit_.store(true, std::memory_order_relaxed);
    wait_.wake();
    thread_.join();
  }

  std::uint64_t live(int group) const override {
    std::uint64_t mask = 0;
    const auto& worker_slots = groups_[static_cast<std::size_t>(group)];
    for (std::size_t i = 0; i < worker_slots.size(); ++i) {
      mask |= worker_slots[i]->is_live() ? std::uint64_t{1} << i : 0;
    }
    return mask;
  }

  std::uint64_t held(int group) const override {
    std::uint64_t mask = 0;
    const auto& worker_slots = groups_[static_cast<std::size_t>(group)];
    for (std::size_t i = 0; i < worker_slots.size(); ++i) {
      mask |= worker_slots[i]->is_held() ? std::uint64_t{1} << i : 0;
    }
    return mask;
  }

  void clear(int group, std::uint64_t sequence) override {
    std::atomic<std::uint64_t>& wanted = clears_[static_cast<std::size_t>(group)];
    std::uint64_t before = wanted.load(std::memory_order_relaxed);
    while (before < sequence &&
           !wanted.compare_exchange_weak(before, sequence, std::memory_order_relaxed)) {
    }
    wait_.wake();
  }

  std::vector<WorkerStatus> status() const override {
    const std::lock_guard lock(mutex_);
    std::vector<WorkerStatus> all;
    for (const auto& watch : watches_) {
      if (watch->is_of_note()) all.push_back(watch->status());
    }
    return all;
  }

  bool wait_until_live(double timeout_s) const override {
    const TimePoint begin = steady_clock::now();
    while (!all_live()) {
      if (seconds_between(begin, steady_clock::now()) >= timeout_s) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }

 private:
  bool all_live() const {
    const std::lock_guard lock(mutex_);
    return std::all_of(watches_.begin(), watches_.end(),
                       [](const auto& watch) { return !watch->should_run() || watch->is_live(); });
  }

  // The thread's function. The kernel kills the workers when this thread ends (ChildProcess), so
  // this thread must start them and outlive them.
  // If there is not enough memory for a check or for starting a worker, it tries again a little
  // later.
  void run() noexcept {
    while (!quit_.load(std::memory_order_relaxed)) {
      try {
        const TimePoint next = look();
        wait_.wait(descriptors(), next - steady_clock::now());
      } catch (const std::exception&) {
        std::this_thread::sleep_for(kAfterException);
      }
    }
    try {
      end();
    } catch (const std::exception&) {
    }
    const std::lock_guard lock(mutex_);
    for (const auto& watch : watches_) {
      try {
        watch->kill_and_reap();
      } catch (const std::exception&) {  // only the log message is lost
      }
    }
  }

  TimePoint look() {
    const std::lock_guard lock(mutex_);
    const TimePoint now = steady_clock::now();
    TimePoint next = now + std::chrono::seconds(1);
    follow_what_is_allowed(now);
    if (options_.allowed) next = std::min(next, cpuset_due_);
    for (std::size_t g = 0; g < options_.groups.size(); ++g) {
      options_.groups[g].mailbox->restore_outbox_header();
      const std::uint64_t sequence = clears_[g].exchange(0, std::memory_order_relaxed);
      for (WorkerSlotWatch* watch : groups_[g]) {
        if (sequence != 0) watch->clear(sequence, now);
        next = std::min(next, watch->look(now));
      }
    }
    tell_when_none_is_left();
    return next;
  }

  void follow_what_is_allowed(TimePoint now) {
    if (!options_.allowed || now < cpuset_due_) return;
    cpuset_due_ = now + duration_of(options_.allowed_every_ms / 1e3);
    std::vector<int> allowed = options_.allowed();
    if (allowed.empty() || allowed == allowed_) return;
    allowed_ = std::move(allowed);
    WorkerPoolOptions::CpusOfGroups cpus;
    for (std::size_t g = 0; g < options_.groups.size(); ++g) {
      std::vector<int>& of_group = cpus.emplace_back();
      for (std::size_t i = 0; i < options_.groups[g].cpus.size(); ++i) {
        of_group.push_back(groups_[g][i]->cpu());
      }
    }
    const WorkerPoolOptions::CpusOfGroups placed = options_.place(cpus, allowed_);
    for (std::size_t g = 0; g < std::min(placed.size(), cpus.size()); ++g) {
      for (std::size_t i = 0; i < std::min(placed[g].size(), cpus[g].size()); ++i) {
        groups_[g][i]->move_to(placed[g][i]);
      }
    }
  }

  void tell_when_none_is_left() {
    const bool any = std::any_of(watches_.begin(), watches_.end(),
                                 [](const auto& watch) { return watch->should_run(); });
    if (!std::exchange(any_left_, any) || any) return;
    log::error(
        "no CPU worker is left: requests wait until their adapter is on the device, as in "
        "adapter_mode pipelined");
  }

  std::vector<int> descriptors() const {
    std::vector<int> all;
    for (const auto& watch : watches_) {
      if (watch->descriptor() >= 0) all.push_back(watch->descriptor());
    }
    return all;
  }

  void end() {
    for (const WorkerGroupOptions& group : options_.groups) stop_workers(*group.mailbox);
    const TimePoint deadline = steady_clock::now() + kEndGrace;
    for (TimePoint now = steady_clock::now();; now = steady_clock::now()) {
      bool over = true;
      {
        const std::lock_guard lock(mutex_);
        for (const auto& watch : watches_) over = watch->look_for_end() && over;
      }
      if (over || now >= deadline) break;
      wait_.wait(descriptors(), std::min<Duration>(deadline - now, milliseconds(20)));
    }
  }

  const WorkerPoolOptions options_;
  ProcessWait wait_;
  std::atomic<bool> quit_{false};
  std::array<std::atomic<std::uint64_t>, kMaxMailboxes> clears_{};
  mutable std::mutex mutex_;  // guards the watches; live() does not need it
  std::vector<std::unique_ptr<WorkerSlotWatch>> watches_;
  std::array<std::vector<WorkerSlotWatch*>, kMaxMailboxes> groups_;
  bool any_left_ = false;
  std::vector<int> allowed_;  // at the last query
  TimePoint cpuset_due_{};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<WorkerPool>> WorkerPool::start(const WorkerPoolOptions& options) {
  TANDEM_TRY(check(options));
  TANDEM_ASSIGN(ProcessWait wait, ProcessWait::create());
  return std::unique_ptr<WorkerPool>(std::make_unique<Supervisor>(options, std::move(wait)));
}

}  // namespace tandem
