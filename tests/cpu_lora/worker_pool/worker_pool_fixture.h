// A pool of real processes (fake_worker.cpp) and a mailbox for them.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "cpu_lora/worker_pool/process.h"
#include "cpu_lora/worker_pool/worker_pool.h"
#include "shm/jobs.h"

namespace tandem {

// Long, because a sanitizer on a busy machine is slow; no test is about this limit.
inline constexpr double kLongS = 60;

inline bool eventually(const std::function<bool()>& happens) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(kLongS);
  while (!happens()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

inline bool is_gone(pid_t pid) {
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

class WorkerPoolTest : public ::testing::Test {
 protected:
  WorkerPoolTest() {
    auto mailbox = Mailbox::create({DType::f32, 3, 8, 8, 8, 8}, -1);
    EXPECT_TRUE(mailbox.ok()) << mailbox.status().message();
    mailbox_.emplace(std::move(mailbox).value());
    options_.program = FAKE_WORKER;
    options_.groups = {{.mailbox = &*mailbox_, .arena = "good", .node = -1, .cpus = {4, 7}}};
    options_.heartbeat_ms = 20000;  // a busy machine may starve a good worker
    options_.start_ms = 60000;
    options_.first_pause_ms = 1;
    options_.last_pause_ms = 20;
  }

  void start(const std::string& script = "good") {
    options_.groups[0].arena = script;
    auto pool = WorkerPool::start(options_);
    ASSERT_TRUE(pool.ok()) << pool.status().message();
    pool_ = std::move(pool).value();
  }

  void start_and_wait(const std::string& script = "good") {
    start(script);
    ASSERT_TRUE(pool_->wait_until_live(kLongS));
  }

  WorkerStatus worker(int worker_slot) const {
    for (const WorkerStatus& each : pool_->status()) {
      if (each.worker_slot == worker_slot) return each;
    }
    return {};
  }

  void publish(std::uint64_t sequence) {
    GroupJob job;
    job.workers = 1;
    job.rows = 1;
    publish_job(*mailbox_, sequence, &job, 1);
  }

  bool is_live(int worker_slot) const { return (pool_->live(0) >> worker_slot & 1) != 0; }

  // True once another worker has replaced `pid`.
  bool is_replaced(int worker_slot, pid_t pid) {
    return eventually([&] {
      const WorkerStatus now = worker(worker_slot);
      return now.pid != 0 && now.pid != pid && is_live(worker_slot);
    });
  }

  // Starts a worker that is not a child of the pool, as `tandem pin apply` does.
  ChildProcess start_foreign(int worker_slot, const std::string& behaviour) {
    auto child = ChildProcess::start(
        {.program = FAKE_WORKER,
         .arguments = {"fake", "worker", "--inbox", mailbox_->inbox_region().name(), "--outbox",
                       mailbox_->outbox_region().name(), "--arena", behaviour, "--worker-slot",
                       std::to_string(worker_slot), "--cpu", "9", "--node", "0", "--spin-ms", "1",
                       "--engine-pid", std::to_string(::getpid())},
         .environment = harmless_environment()});
    EXPECT_TRUE(child.ok()) << child.status().message();
    return std::move(child).value();
  }

  WorkerPoolOptions options_;
  std::optional<Mailbox> mailbox_;
  std::unique_ptr<WorkerPool> pool_;
};

}  // namespace tandem
