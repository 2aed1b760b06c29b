#include "cpu_lora/worker/worker_loop.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/onednn/matmul.h"
#include "cpu_lora/worker/delta.h"
#include "cpu_lora/worker/line_wait.h"
#include "shm/jobs.h"

namespace tandem {
namespace {

using std::chrono::steady_clock;

// Weights packed ahead of the doorbell stay in a core's L2 cache until they are used.
constexpr std::size_t kAheadBytes = std::size_t{1} << 20;
constexpr double kSleepS = 0.1;  // also the longest time without a heartbeat while asleep
constexpr auto kLookEvery = std::chrono::milliseconds(20);
// A described job whose doorbell does not ring keeps a worker awake for this long: its step is
// queued behind others. Then the worker naps, and sees a later doorbell after at most one nap.
constexpr auto kDoorbellPatience = std::chrono::seconds(1);
constexpr double kNapS = 0.001;

}  // namespace

struct WorkerLoop::Impl {
  Impl(Mailbox& mailbox_in, std::span<const std::byte> arena_in,
       const WorkerLoopOptions& options_in, WorkerDelta delta_in)
      : mailbox(mailbox_in),
        arena(arena_in),
        options(options_in),
        worker_slot(mailbox_in.worker_slot(options_in.worker_slot)),
        delta(std::move(delta_in)) {}
  ~Impl();

  void run();
  void handle(std::uint64_t n);
  void leave(std::uint64_t n);
  std::uint32_t find_mine();
  bool wait_for_doorbell(std::uint64_t n, std::uint32_t index, Ticket& ticket);
  bool compute(std::uint64_t n, DeltaTask& task, Ticket ticket);
  bool meet(std::uint64_t n, std::uint32_t group, std::uint64_t peers);
  bool wait_for_weights(std::uint64_t n, const GroupJob& job);
  bool is_lost(std::uint64_t n) const;
  bool is_present(const GroupJob& job) const;
  bool has_worker_slot() const;
  bool is_over();
  void pause_without_jobs();
  void refuse(const Status& why);

  Mailbox& mailbox;
  const std::span<const std::byte> arena;
  const WorkerLoopOptions options;
  WorkerSlot& worker_slot;
  const std::uint32_t pid = static_cast<std::uint32_t>(::getpid());
  WorkerDelta delta;

  const std::atomic<bool>* stop = nullptr;
  const std::function<bool()>* alive = nullptr;
  bool ended = false;
  bool told = false;  // a refused job was logged
  TimePoint next_look{};
  TimePoint idle_since{};
  TimePoint last_task{};  // end of it; later jobs of others keep it awake, but it yields its core
  std::uint32_t seen_wake = 0;

  std::uint64_t next = 1;  // next job to handle
  JobCopy job;
  std::vector<DeltaTask> tasks;  // for its groups in the job; `num_tasks` in use
  std::uint32_t num_tasks = 0;
};

// Only this worker writes its counters, so its own loads of them need no order.
namespace {
void add(std::atomic<std::uint64_t>& counter, std::uint64_t by) {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}
}  // namespace

WorkerLoop::Impl::~Impl() {
  if (!has_worker_slot()) return;
  worker_slot.state.store(WorkerSlotState::empty, std::memory_order_relaxed);
  std::uint32_t own = pid;
  // release: pairs with the acquire in quiet() and with the one by which the next worker takes the
  // worker slot: all accesses of this worker come before.
  worker_slot.pid.compare_exchange_strong(own, 0, std::memory_order_release,
                                          std::memory_order_relaxed);
}

// Returns false if another pid was written there: then another worker may take it.
bool WorkerLoop::Impl::has_worker_slot() const {
  return worker_slot.pid.load(std::memory_order_relaxed) == pid;
}

void WorkerLoop::Impl::run() {
  use_one_thread();
  const std::uint64_t published = mailbox.inbox().published.load(std::memory_order_acquire);
  // Jobs described earlier are not for this worker: their rows may be given up already, and reused
  // by others.
  next = published + 1;
  // release: pairs with the acquire in quiet().
  worker_slot.progress.store(published, std::memory_order_release);
  // release: pairs with the acquire of the code that gives jobs to working worker slots.
  worker_slot.state.store(WorkerSlotState::working, std::memory_order_release);
  idle_since = steady_clock::now();
  while (!is_over()) {
    // acquire: pairs with the release in publish_job(), which comes after the description.
    if (mailbox.inbox().published.load(std::memory_order_acquire) < next) {
      pause_without_jobs();
      continue;
    }
    handle(next);
    if (ended) return;
    idle_since = steady_clock::now();
    if (num_tasks > 0) last_task = idle_since;
  }
}

// Updates the heartbeat and checks whether to end. Called often enough in every wait.
bool WorkerLoop::Impl::is_over() {
  if (ended) return true;
  const TimePoint now = steady_clock::now();
  if (now < next_look) return false;
  next_look = now + kLookEvery;
  add(worker_slot.heartbeat, 1);
  // The worker is awake whenever this runs. If another process has overwritten its state, it would
  // get no jobs while other workers keep it from sleeping.
  if (worker_slot.state.load(std::memory_order_relaxed) != WorkerSlotState::working) {
    worker_slot.state.store(WorkerSlotState::working, std::memory_order_release);
  }
  // relaxed: only the end depends on the flag. acquire: pairs with stop_workers().
  ended = stop->load(std::memory_order_relaxed) ||
          mailbox.inbox().stop.load(std::memory_order_acquire) != 0 || !(*alive)();
  if (!ended && !has_worker_slot()) {
    log::warning("worker {} ends: its worker slot belongs to another process, {}",
                 options.worker_slot, worker_slot.pid.load(std::memory_order_relaxed));
    ended = true;
  }
  return ended;
}

void WorkerLoop::Impl::pause_without_jobs() {
  const InboxHeader& inbox = mailbox.inbox();
  // acquire: pairs with the release in wake_workers(): jobs published before that bump are
  // seen below, and a bump after this load ends the sleep.
  const std::uint32_t wake = inbox.wake.load(std::memory_order_acquire);
  // After a wake a job is likely to come.
  if (std::exchange(seen_wake, wake) != wake) idle_since = steady_clock::now();
  if (steady_clock::now() - idle_since < duration_of(options.spin_ms / 1e3)) {
    wait_for_change(inbox.published, next - 1);
    share_core(last_task);
    return;
  }
  // seq_cst, with the fence: a publisher stores, fences, and then checks whether a worker sleeps.
  // One of the two sees the other's store.
  worker_slot.state.store(WorkerSlotState::sleeping, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (inbox.published.load(std::memory_order_acquire) < next &&
      inbox.stop.load(std::memory_order_acquire) == 0 && !stop->load(std::memory_order_relaxed)) {
    sleep_until_woken(mailbox, wake, kSleepS);
    if (inbox.wake.load(std::memory_order_relaxed) != wake) {
      const std::chrono::nanoseconds now = steady_clock::now().time_since_epoch();
      worker_slot.woke_ns.store(static_cast<std::uint64_t>(now.count()), std::memory_order_relaxed);
    }
  }
  // release: pairs with the engine's acquire, which then sees `woke_ns`.
  worker_slot.state.store(WorkerSlotState::working, std::memory_order_release);
  next_look = {};  // after the sleep: update the heartbeat and check now
}

void WorkerLoop::Impl::leave(std::uint64_t n) {
  // release: pairs with the acquire in quiet(): this worker's last access to the job comes before.
  worker_slot.progress.store(n, std::memory_order_release);
  next = n + 1;
}

bool WorkerLoop::Impl::is_lost(std::uint64_t n) const {
  // acquire: pairs with the release in retire_before().
  return mailbox.inbox().first_live.load(std::memory_order_acquire) > n ||
         // relaxed: after a change nothing more of the job is read.
         mailbox.job(n).sequence.load(std::memory_order_relaxed) != n;
}

bool WorkerLoop::Impl::is_present(const GroupJob& group_job) const {
  if (group_job.present_value == 0) return true;
  const auto* word = reinterpret_cast<const std::uint32_t*>(arena.data() + group_job.present);
  // acquire: pairs with the release of the reader that loads the adapter from disk, after its
  // bytes.
  return __atomic_load_n(word, __ATOMIC_ACQUIRE) == group_job.present_value;
}

void WorkerLoop::Impl::refuse(const Status& why) {
  worker_slot.refused.fetch_add(1, std::memory_order_relaxed);
  if (std::exchange(told, true)) return;
  log::warning("worker {} skipped a job: {}", options.worker_slot, why.message());
}

// Finds this worker's groups in the job and creates tasks for them. Returns their number.
std::uint32_t WorkerLoop::Impl::find_mine() {
  const std::uint64_t bit = std::uint64_t{1} << options.worker_slot;
  std::uint32_t count = 0;
  std::size_t kept = 0;
  for (std::uint32_t i = 0; i < job.num_groups; ++i) {
    const GroupJob group_job = job.groups[i];
    if ((group_job.workers & bit) == 0) continue;
    if (Status good = check_group_job(group_job, mailbox.shape(), arena.size()); !good) {
      refuse(good);
      continue;
    }
    if (count == tasks.size()) tasks.emplace_back();
    delta.assign(tasks[count], group_job, options.worker_slot,
                 {mailbox.shape().dtype, mailbox.v_row(), job.weights}, arena.data(),
                 kAheadBytes - kept);
    kept += delta.kept_bytes(tasks[count]);
    ++count;
  }
  return count;
}

void WorkerLoop::Impl::handle(std::uint64_t n) {
  num_tasks = 0;
  // acquire: pairs with the release in retire_before().
  const std::uint64_t first_live = mailbox.inbox().first_live.load(std::memory_order_acquire);
  if (n < first_live) return leave(first_live - 1);
  if (!read_job(mailbox, n, job)) return leave(n);
  num_tasks = find_mine();
  for (std::uint32_t i = 0; i < num_tasks; ++i) {
    Ticket ticket = Ticket::none;
    if (!wait_for_doorbell(n, i, ticket)) break;
    if (ticket != Ticket::cpu && ticket != Ticket::cpu_xa) continue;
    const TimePoint start = steady_clock::now();
    if (!compute(n, tasks[i], ticket)) break;
    const auto busy = std::chrono::nanoseconds(steady_clock::now() - start).count();
    add(worker_slot.jobs, 1);
    add(worker_slot.busy_ns, static_cast<std::uint64_t>(busy));
  }
  leave(n);
}

// Waits for the doorbell of task `index`, and packs weights meanwhile. Returns false if the job is
// lost, or this worker is to end.
bool WorkerLoop::Impl::wait_for_doorbell(std::uint64_t n, std::uint32_t index, Ticket& ticket) {
  const std::atomic<std::uint64_t>& doorbell = mailbox.doorbells()[tasks[index].job().group].value;
  const TimePoint start = steady_clock::now();
  std::uint32_t ahead = index;
  while (true) {
    // acquire: pairs with the device's release of the doorbell, after the rows of x.
    const std::uint64_t value = doorbell.load(std::memory_order_acquire);
    if (sequence_of(value) == n) {
      ticket = ticket_of(value);
      return true;
    }
    if (sequence_of(value) > n || is_lost(n) || is_over()) return false;
    while (ahead < num_tasks &&
           !(is_present(tasks[ahead].job()) && delta.pack_some(tasks[ahead]))) {
      ++ahead;  // all packed, or not present yet: then packed when needed
    }
    if (ahead < num_tasks) continue;
    if (steady_clock::now() - start > kDoorbellPatience) {
      sleep_until_woken(mailbox, mailbox.inbox().wake.load(std::memory_order_relaxed), kNapS);
    } else {
      wait_for_change(doorbell, value);
      share_core(start);
    }
  }
}

// Returns false if the job was given up.
bool WorkerLoop::Impl::compute(std::uint64_t n, DeltaTask& task, Ticket ticket) {
  const GroupJob& group_job = task.job();
  const Share& share = task.share();
  const std::uint32_t group = group_job.group;
  const DeltaPlaces places = places_of(mailbox, group_job);
  if (!wait_for_weights(n, group_job)) return false;
  const TimePoint start = steady_clock::now();
  Duration waited{};
  Status status = delta.shrink(task, places);
  // release: pairs with the acquire in meet() of the workers that read this part of v.
  if (status.ok()) worker_slot.shrunk[group].store(n, std::memory_order_release);
  if (status.ok() && ticket == Ticket::cpu) {
    if (share.expand_peers != 0) {
      delta.pack_rest(task);  // while waiting for the peers
      const TimePoint ready = steady_clock::now();
      if (!meet(n, group, share.expand_peers)) return false;
      waited = steady_clock::now() - ready;
    }
    status = delta.expand(task, places);
    const auto sharing = static_cast<std::uint64_t>(std::popcount(group_job.workers));
    if (group_job.split == JobSplit::columns && sharing > 1) {
      const std::chrono::nanoseconds worked = steady_clock::now() - start - waited;
      add(worker_slot.shared_jobs, 1);
      add(worker_slot.shared_ns, static_cast<std::uint64_t>(worked.count()));
      add(worker_slot.shared_parts, share.part + kWholeJob / sharing / 8);
    }
  } else if (status.ok() && share.most_planes > 1) {
    if (!meet(n, group, share.reduce_peers)) return false;
    delta.reduce(task, places);
  }
  if (!status.ok()) {
    refuse(status);
    return false;
  }
  // release: pairs with the acquire in the device's accept, which then sees y, or v.
  worker_slot.done[group].store(n, std::memory_order_release);
  return true;
}

// Waits until all `peers` have written their parts of v.
bool WorkerLoop::Impl::meet(std::uint64_t n, std::uint32_t group, std::uint64_t peers) {
  const TimePoint start = steady_clock::now();
  const TimePoint deadline = start + duration_of(options.peer_ms / 1e3);
  for (; peers != 0; peers &= peers - 1) {
    const std::atomic<std::uint64_t>& word =
        mailbox.worker_slot(std::countr_zero(peers)).shrunk[group];
    // acquire: pairs with the release in the peer's compute(), after its part of v.
    for (int spins = 1; word.load(std::memory_order_acquire) != n; ++spins) {
      relax();
      if (spins % 64 != 0) continue;
      if (steady_clock::now() > deadline || is_lost(n) || is_over()) return false;
      share_core(start);
    }
  }
  return true;
}

bool WorkerLoop::Impl::wait_for_weights(std::uint64_t n, const GroupJob& group_job) {
  const TimePoint start = steady_clock::now();
  const TimePoint deadline = start + duration_of(options.peer_ms / 1e3);
  while (!is_present(group_job)) {
    for (int i = 0; i < 64; ++i) relax();
    if (steady_clock::now() > deadline || is_lost(n) || is_over()) return false;
    share_core(start);
  }
  return true;
}

WorkerLoop::WorkerLoop(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WorkerLoop::WorkerLoop(WorkerLoop&&) noexcept = default;
WorkerLoop& WorkerLoop::operator=(WorkerLoop&&) noexcept = default;
WorkerLoop::~WorkerLoop() = default;

Result<WorkerLoop> WorkerLoop::create(Mailbox& mailbox, std::span<const std::byte> arena,
                                      const WorkerLoopOptions& options) {
  const MailboxShape& shape = mailbox.shape();
  if (options.worker_slot < 0 ||
      static_cast<std::uint32_t>(options.worker_slot) >= shape.num_worker_slots) {
    return invalid("worker slot {} of a mailbox with {} worker slots", options.worker_slot,
                   shape.num_worker_slots);
  }
  use_one_thread();
  TANDEM_ASSIGN(WorkerDelta delta, WorkerDelta::create(shape.dtype, options.product));
  TANDEM_TRY(delta.warm_up());
  WorkerSlot& worker_slot = mailbox.worker_slot(options.worker_slot);
  std::uint32_t nobody = 0;
  // acq_rel: the acquire pairs with the release by which the previous worker left the worker slot.
  if (!worker_slot.pid.compare_exchange_strong(nobody, static_cast<std::uint32_t>(::getpid()),
                                               std::memory_order_acq_rel)) {
    return error(StatusCode::already_exists, "worker slot {} is taken by process {}",
                 options.worker_slot, nobody);
  }
  worker_slot.state.store(WorkerSlotState::starting, std::memory_order_relaxed);
  worker_slot.cpu.store(static_cast<std::uint32_t>(options.cpu), std::memory_order_relaxed);
  return WorkerLoop(std::make_unique<Impl>(mailbox, arena, options, std::move(delta)));
}

void WorkerLoop::run(const std::atomic<bool>& stop, const std::function<bool()>& alive) {
  impl_->stop = &stop;
  impl_->alive = &alive;
  impl_->run();
}

}  // namespace tandem
