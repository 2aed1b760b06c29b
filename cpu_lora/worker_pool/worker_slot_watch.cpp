#include "cpu_lora/worker_pool/worker_slot_watch.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log/log.h"
#include "shm/jobs.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;

// A worker that was late may finish its part within this time and is then kept.
constexpr Duration kClearGrace = milliseconds(20);
constexpr Duration kHealthyLife = std::chrono::minutes(1);

RestartOptions restart_options(const WorkerPoolOptions& options) {
  return {.first_pause = duration_of(options.first_pause_ms / 1e3),
          .last_pause = duration_of(options.last_pause_ms / 1e3),
          .healthy_life = kHealthyLife,
          .max_deaths = options.max_deaths};
}

ChildProcessOptions command(const WorkerPoolOptions& options, const WorkerGroupOptions& group,
                            int worker_slot, int cpu) {
  ChildProcessOptions child;
  child.program = options.program;
  child.arguments = {options.program.empty() ? "tandem" : options.program,
                     "worker",
                     "--inbox",
                     group.mailbox->inbox_region().name(),
                     "--outbox",
                     group.mailbox->outbox_region().name(),
                     "--arena",
                     group.arena,
                     "--worker-slot",
                     std::to_string(worker_slot),
                     "--cpu",
                     std::to_string(cpu),
                     "--node",
                     std::to_string(group.node),
                     "--spin-ms",
                     fmt::format("{}", options.spin_ms),
                     "--engine-pid",
                     std::to_string(::getpid())};
  child.environment = harmless_environment();
  if (log::format() == log::Format::json) child.environment.emplace_back("TANDEM_LOG_FORMAT=json");
  return child;
}

// Values that a worker writes are never trusted: any other value is no valid state.
bool says_it_works(WorkerSlotState state) {
  return state == WorkerSlotState::working || state == WorkerSlotState::sleeping;
}

}  // namespace

WorkerSlotWatch::WorkerSlotWatch(const WorkerPoolOptions& options, int group, int worker_slot,
                                 int cpu)
    : options_(options),
      group_options_(options.groups[static_cast<std::size_t>(group)]),
      at_(group_options_.mailbox->worker_slot(worker_slot)),
      group_(group),
      worker_slot_(worker_slot),
      cpu_(cpu),
      heartbeat_(duration_of(options.heartbeat_ms / 1e3)),
      look_every_(std::clamp<Duration>(heartbeat_ / 4, milliseconds(1), milliseconds(250))),
      policy_(restart_options(options)) {}

std::string WorkerSlotWatch::name() const {
  return cpu_ >= 0 ? fmt::format("CPU worker {}.{} for core {}", group_, worker_slot_, cpu_)
                   : fmt::format("CPU worker {}.{}", group_, worker_slot_);
}

bool WorkerSlotWatch::is_live() const {
  // acquire, all three: pair with the worker's releases when it takes its worker slot and when it
  // is ready.
  const std::uint32_t trusted = trusted_pid_.load(std::memory_order_acquire);
  const bool live = trusted != 0 && at_.pid.load(std::memory_order_acquire) == trusted &&
                    says_it_works(at_.state.load(std::memory_order_acquire));
  if (live) given_pid_.store(trusted, std::memory_order_relaxed);
  return live;
}

bool WorkerSlotWatch::is_held() const {
  // acquire: pairs with the release in forget_the_dead(): a thread that sees that the worker is
  // dead also sees everything that it wrote.
  return given_pid_.load(std::memory_order_acquire) != 0;
}

TimePoint WorkerSlotWatch::look(TimePoint now) {
  if (child_ && child_->has_ended()) on_end(now);
  // acquire: pairs with the worker's release when it leaves its worker slot.
  const std::uint32_t pid = at_.pid.load(std::memory_order_acquire);
  if (child_) {
    watch_child(now);
  } else if (foreign_pid_ != 0 && foreign_pid_ != pid && !forget_foreign()) {
    // The process has not ended yet, whatever its worker slot contains.
  } else if (pid != 0) {
    watch_foreign(pid, now);
  } else if (should_run() && now >= due_) {
    start(now);
  }
  forget_the_dead();
  clear_if_due(now);

  TimePoint next = now + look_every_;
  if (child_ && child_->descriptor() < 0) next = std::min<TimePoint>(next, now + milliseconds(10));
  if (!child_ && should_run() && pid == 0) next = std::max(now, due_);
  if (foreign_killed_) next = std::min<TimePoint>(next, now + milliseconds(1));
  if (clear_sequence_ != 0) next = std::min(next, std::max(now, clear_at_));
  return next;
}

void WorkerSlotWatch::move_to(int cpu) {
  if (cpu == cpu_) return;
  if (child_) {
    condemn(fmt::format("this process may not run on core {} any more; it goes to {}", cpu_,
                        cpu < 0 ? "none" : fmt::format("core {}", cpu)));
  }
  cpu_ = cpu;
}

void WorkerSlotWatch::start(TimePoint now) {
  has_taken_ = has_worked_ = false;
  condemned_.clear();
  started_ = beat_at_ = looked_at_ = now;
  if (++starts_ > 1) log::debug("{} is started again", name());
  Result<ChildProcess> child =
      ChildProcess::start(command(options_, group_options_, worker_slot_, cpu_));
  if (!child) return fail_start(child.status(), now);
  child_.emplace(std::move(child).value());
  // release: pairs with the acquire in is_live().
  trusted_pid_.store(static_cast<std::uint32_t>(child_->pid()), std::memory_order_release);
}

void WorkerSlotWatch::fail_start(const Status& why, TimePoint now) {
  last_end_ = why.message();
  after_death("could not be started", now, {});
}

void WorkerSlotWatch::on_end(TimePoint now) {
  trusted_pid_.store(0, std::memory_order_release);
  last_end_ = child_->end();
  if (!condemned_.empty()) last_end_ += ", because " + condemned_;
  if (child_->exit_status() == kExitEngineGone) last_end_ += ", because its shared memory is gone";
  const std::string what = fmt::format("(pid {}) ended", child_->pid());
  empty(static_cast<std::uint32_t>(child_->pid()));
  child_.reset();
  after_death(what, now, now - started_);
}

void WorkerSlotWatch::after_death(std::string_view what, TimePoint now, Duration life) {
  const std::optional<Duration> pause = policy_.on_death(life);
  left_out_ = !pause;
  if (cpu_ < 0) {
    log::warning("{} {}: {}", name(), what, last_end_);
  } else if (pause) {
    due_ = now + *pause;
    log::warning("{} {}: {}; it restarts in {:.3g} s", name(), what, last_end_,
                 seconds_between(now, due_));
  } else {
    log::error("{} {}: {}; it failed {} times in a row and is not restarted", name(), what,
               last_end_, policy_.deaths());
  }
}

void WorkerSlotWatch::condemn(std::string why) {
  if (!condemned_.empty()) return;
  condemned_ = std::move(why);
  // No more jobs for this worker; its worker slot is cleared when the process is reaped.
  trusted_pid_.store(0, std::memory_order_release);
  child_->kill(SIGKILL);
}

// Whether the worker is alive, judged by its heartbeat. Time in which this thread did not check
// does not count as silence: this machine, or this process, may have been stopped.
WorkerSlotWatch::Beat WorkerSlotWatch::see_beat(TimePoint now) {
  const Duration absence = now - std::exchange(looked_at_, now);
  if (absence > 2 * look_every_) beat_at_ = std::min(beat_at_ + absence, now);
  const std::uint64_t beat = at_.heartbeat.load(std::memory_order_relaxed);
  if (beat != std::exchange(beat_, beat)) {
    beat_at_ = now;
    return Beat::heard;
  }
  return now - beat_at_ <= heartbeat_ ? Beat::awaited : Beat::missed;
}

void WorkerSlotWatch::watch_child(TimePoint now) {
  const auto own = static_cast<std::uint32_t>(child_->pid());
  const bool sits = at_.pid.load(std::memory_order_acquire) == own;
  if (sits && !has_taken_) {
    has_taken_ = true;
    beat_at_ = now;
  }
  if (sits && !has_worked_ && says_it_works(at_.state.load(std::memory_order_acquire))) {
    has_worked_ = true;
    beat_at_ = now;
    log::debug("{} works (pid {})", name(), own);
  }
  const bool beats = sits && see_beat(now) != Beat::missed;
  if (!has_worked_) {
    if (now - started_ > duration_of(options_.start_ms / 1e3)) {
      condemn(fmt::format("it was not ready after {} ms", options_.start_ms));
    }
  } else if (!beats && now - beat_at_ > heartbeat_) {
    condemn(sits ? fmt::format("it gave no sign of life for {} ms", options_.heartbeat_ms)
                 : "it left its worker slot and did not end");
  }
}

void WorkerSlotWatch::watch_foreign(std::uint32_t pid, TimePoint now) {
  if (foreign_pid_ == 0) {
    foreign_pid_ = pid;
    foreign_beats_ = foreign_killed_ = false;
    beat_ = at_.heartbeat.load(std::memory_order_relaxed);
    beat_at_ = looked_at_ = now;
  }
  if (!sits_here(static_cast<pid_t>(pid))) {
    log::info(
        "{}: pid {}, which held its worker slot, is dead or is no worker; the slot is free again",
        name(), pid);
    trusted_pid_.store(0, std::memory_order_release);
    empty(pid);
    foreign_pid_ = 0;
    foreign_killed_ = false;
    return;
  }
  const Beat beat = see_beat(now);
  if (beat == Beat::heard && !std::exchange(foreign_beats_, true)) {
    log::info("{} was started by another program (pid {})", name(), pid);
    trusted_pid_.store(pid, std::memory_order_release);
  }
  if (beat != Beat::missed && !foreign_killed_) return;
  if (beat == Beat::missed && std::exchange(foreign_beats_, false)) {
    log::warning("{} (pid {}, started by another program) does not respond", name(), pid);
  }
  trusted_pid_.store(0, std::memory_order_release);
}

// Called when the worker slot says that its worker left. Returns false if the process still runs;
// it is then killed, because a worker that leaves by itself is about to end anyway.
bool WorkerSlotWatch::forget_foreign() {
  trusted_pid_.store(0, std::memory_order_release);
  const auto pid = static_cast<pid_t>(foreign_pid_);
  foreign_killed_ = kill_if(pid, SIGKILL, [&] { return sits_here(pid); });
  if (foreign_killed_) return false;
  foreign_pid_ = 0;
  return true;
}

void WorkerSlotWatch::forget_the_dead() {
  const std::uint32_t present = child_ ? static_cast<std::uint32_t>(child_->pid()) : foreign_pid_;
  std::uint32_t given = given_pid_.load(std::memory_order_relaxed);
  if (given == 0 || given == present) return;
  // release: pairs with the acquire in is_held().
  given_pid_.compare_exchange_strong(given, 0, std::memory_order_release,
                                     std::memory_order_relaxed);
}

// Whether the kernel reports that process `pid` is a worker of this worker slot. The slot's content
// may be garbage that names any process, such as another slot's worker or this process. The command
// line is checked, because every user may read it; the memory maps of other users' workers are not
// readable.
bool WorkerSlotWatch::sits_here(pid_t pid) const {
  const std::vector<std::string> words = process_arguments(pid);
  const auto has = [&](const std::string& flag, const std::string& value) {
    const std::string both[] = {flag, value};
    return std::search(words.begin(), words.end(), std::begin(both), std::end(both)) != words.end();
  };
  return has("--outbox", group_options_.mailbox->outbox_region().name()) &&
         has("--worker-slot", std::to_string(worker_slot_));
}

void WorkerSlotWatch::clear(std::uint64_t sequence, TimePoint now) {
  if (clear_sequence_ == 0) clear_at_ = now + kClearGrace;
  clear_sequence_ = std::max(clear_sequence_, sequence);
}

void WorkerSlotWatch::clear_if_due(TimePoint now) {
  if (clear_sequence_ == 0) return;
  const Mailbox& mailbox = *group_options_.mailbox;
  const std::uint64_t bit = std::uint64_t{1} << worker_slot_;
  if (quiet(mailbox, bit, clear_sequence_, is_held() ? bit : 0)) {
    clear_sequence_ = 0;
    return;
  }
  if (now < clear_at_) return;
  const std::string why = fmt::format("job {} was overdue", std::exchange(clear_sequence_, 0));
  // A worker that is still starting has no job: it skips all earlier jobs when it begins.
  if (child_) {
    if (has_worked_ || is_held()) condemn(why);
    return;
  }
  const auto pid = static_cast<pid_t>(at_.pid.load(std::memory_order_acquire));
  if (!kill_if(pid, SIGKILL, [&] { return sits_here(pid); })) return;
  log::warning("{} (pid {}, started by another program) is killed: {}", name(), pid, why);
  foreign_killed_ = true;
}

void WorkerSlotWatch::empty(std::uint32_t pid) {
  // If another worker has taken the slot by now, it keeps it.
  std::uint32_t expected = pid;
  if (at_.pid.load(std::memory_order_acquire) != pid) return;
  at_.state.store(WorkerSlotState::empty, std::memory_order_relaxed);
  // release: pairs with the acquire in quiet() and in the next worker's taking of the worker slot.
  at_.pid.compare_exchange_strong(expected, 0, std::memory_order_release,
                                  std::memory_order_relaxed);
}

WorkerStatus WorkerSlotWatch::status() const {
  WorkerStatus status;
  status.group = group_;
  status.worker_slot = worker_slot_;
  status.ours = cpu_ >= 0 && foreign_pid_ == 0;
  status.pid = child_ ? child_->pid() : static_cast<int>(foreign_pid_);
  status.cpu = status.ours ? cpu_ : static_cast<int>(at_.cpu.load(std::memory_order_relaxed));
  status.left_out = left_out_;
  status.restarts = starts_ > 1 ? starts_ - 1 : 0;
  status.jobs = at_.jobs.load(std::memory_order_relaxed);
  status.busy_s = static_cast<double>(at_.busy_ns.load(std::memory_order_relaxed)) * 1e-9;
  status.last_end = last_end_;
  return status;
}

bool WorkerSlotWatch::look_for_end() {
  trusted_pid_.store(0, std::memory_order_release);
  // A worker that is still starting has nothing to finish, and reads the stop flag only when it is
  // up.
  if (child_ && !has_worked_ && !says_it_works(at_.state.load(std::memory_order_acquire))) {
    child_->kill(SIGKILL);
  }
  if (child_ && child_->has_ended()) {
    empty(static_cast<std::uint32_t>(child_->pid()));
    child_.reset();
  }
  return !child_;
}

void WorkerSlotWatch::kill_and_reap() {
  if (!child_) return;
  const auto pid = static_cast<std::uint32_t>(child_->pid());
  log::warning("{} (pid {}) did not end when asked to; it is killed", name(), pid);
  child_.reset();
  empty(pid);
}

}  // namespace tandem
