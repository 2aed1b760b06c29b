// One worker slot of a mailbox and the worker in it: either our process, which is started, watched
// and restarted, or another process's worker, which is only watched. Only the pool's thread writes
// it.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "cpu_lora/worker_pool/process.h"
#include "cpu_lora/worker_pool/restart_policy.h"
#include "cpu_lora/worker_pool/worker_pool.h"

namespace tandem {

class WorkerSlotWatch {
 public:
  // `cpu`: the cpu of the worker that should run there; -1: none of ours should. The options
  // outlive it.
  WorkerSlotWatch(const WorkerPoolOptions& options, int group, int worker_slot, int cpu);

  // Checks the process and the worker slot and does what is due. Returns the latest time of the
  // next check; check earlier if descriptor() becomes readable.
  TimePoint look(TimePoint now);
  int descriptor() const { return child_ ? child_->descriptor() : -1; }

  // Kills the worker after a short grace period from `now` if it has not finished job `sequence` by
  // then.
  void clear(std::uint64_t sequence, TimePoint now);

  // Ends the current worker, if there is one, and starts the next one on this cpu; -1: starts none.
  void move_to(int cpu);
  int cpu() const { return cpu_; }

  // Whether its worker is up and may be given jobs. Any thread.
  bool is_live() const;
  // Whether the last worker for which is_live() was true has not ended, as far as the pool has
  // seen. Any thread.
  bool is_held() const;
  bool should_run() const { return cpu_ >= 0 && !left_out_; }
  bool is_running() const { return child_.has_value(); }
  // Whether the slot has or had a worker of ours or of another process.
  bool is_of_note() const { return cpu_ >= 0 || foreign_pid_ != 0; }
  WorkerStatus status() const;

  // For the end of the pool, after the stop flag was set: starts no more workers and kills one that
  // is still starting. Returns true when no process of ours is left.
  bool look_for_end();
  void kill_and_reap();

 private:
  void start(TimePoint now);
  void watch_child(TimePoint now);
  void watch_foreign(std::uint32_t pid, TimePoint now);
  void on_end(TimePoint now);
  void fail_start(const Status& why, TimePoint now);
  void after_death(std::string_view what, TimePoint now, Duration life);
  void condemn(std::string why);
  void clear_if_due(TimePoint now);
  enum class Beat { heard, awaited, missed };
  Beat see_beat(TimePoint now);
  bool sits_here(pid_t pid) const;
  void empty(std::uint32_t pid);
  bool forget_foreign();
  void forget_the_dead();
  std::string name() const;

  const WorkerPoolOptions& options_;
  const WorkerGroupOptions& group_options_;
  WorkerSlot& at_;
  const int group_;
  const int worker_slot_;
  int cpu_;
  const Duration heartbeat_;
  const Duration look_every_;

  std::optional<ChildProcess> child_;
  RestartPolicy policy_;
  TimePoint started_{};
  TimePoint due_{};  // for the next start
  bool has_taken_ = false;
  bool has_worked_ = false;
  std::string condemned_;  // why it was killed; empty: it was not
  bool left_out_ = false;
  std::uint64_t starts_ = 0;
  std::string last_end_;

  std::uint32_t foreign_pid_ = 0;
  bool foreign_beats_ = false;
  bool foreign_killed_ = false;

  std::uint64_t beat_ = 0;  // the last seen
  TimePoint beat_at_{};
  TimePoint looked_at_{};

  std::uint64_t clear_sequence_ = 0;  // 0: nothing to clear
  TimePoint clear_at_{};

  // The worker that may be given jobs if its worker slot says so.
  std::atomic<std::uint32_t> trusted_pid_{0};
  mutable std::atomic<std::uint32_t> given_pid_{0};  // the worker that got jobs; 0: it has ended
};

}  // namespace tandem
