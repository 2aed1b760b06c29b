#include "engine/constraint/mask_thread.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log/log.h"

namespace tandem {
namespace {

// The interval at which the processor time of a running mask is checked.
constexpr Duration kLookEvery = std::chrono::milliseconds(10);

Duration cpu_time(clockid_t clock) {
  timespec now{};
  if (::clock_gettime(clock, &now) != 0) return {};
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

// Tasks passed to the thread. The task in progress belongs to the thread and keeps a share of its
// filter if the thread is abandoned; the tasks before and after it are taken back.
struct MaskThread::Batch {
  std::vector<MaskTask> tasks;
  std::size_t done = 0;        // guarded, like the rest, by the worker's mutex
  Duration cpu_at_begin = {};  // processor time at the start of the current task
  TimePoint began = {};
};

class MaskThread::Worker : public std::enable_shared_from_this<Worker> {
 public:
  explicit Worker(std::shared_ptr<std::atomic<int>> abandoned) : abandoned_(std::move(abandoned)) {}

  // Starts a detached thread that shares ownership of its state.
  void start() {
    std::thread thread([self = shared_from_this()] { self->work(); });
    has_clock_ = ::pthread_getcpuclockid(thread.native_handle(), &clock_) == 0;
    thread.detach();
  }

  void give(std::shared_ptr<Batch> batch) {
    const std::lock_guard lock(mutex_);
    batch->began = SteadyClock().now();
    batch->cpu_at_begin = cpu_now();
    batch_ = std::move(batch);
    changed_.notify_all();
  }

  // Returns the number of finished tasks: all, or those before one that takes too long.
  std::size_t wait(const Batch& batch, const MaskLimits& limits) {
    std::unique_lock lock(mutex_);
    const std::size_t count = batch.tasks.size();
    while (!done_.wait_for(lock, kLookEvery, [&] { return batch.done == count; })) {
      const bool too_long = cpu_now() - batch.cpu_at_begin > limits.cpu ||
                            SteadyClock().now() - batch.began > limits.wall;
      if (!too_long) continue;
      abandoned_->fetch_add(1, std::memory_order_relaxed);  // relaxed: only a counter
      left_alone_ = true;
      return batch.done;
    }
    return count;
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }

 private:
  // Reads the thread's clock. Requires that the thread is alive, which it is while it has a batch
  // or waits for one.
  Duration cpu_now() const { return has_clock_ ? cpu_time(clock_) : Duration{}; }

  void work() {
    pthread_setname_np(pthread_self(), "masks");
    std::unique_lock lock(mutex_);
    while (!stopping_ && !left_alone_) {
      changed_.wait(lock, [&] { return stopping_ || batch_ != nullptr; });
      if (batch_ == nullptr) return;
      const std::shared_ptr<Batch> batch = std::move(batch_);
      batch_ = nullptr;
      for (std::size_t i = 0; i < batch->tasks.size() && !left_alone_; ++i) {
        MaskTask& task = batch->tasks[i];
        lock.unlock();
        try {
          task.outlook = task.filter->next(task.output, task.hold_end, task.mask);
        } catch (const std::bad_alloc&) {
          task.outlook = error(StatusCode::resource_exhausted, "there is no memory for a mask now");
        }
        lock.lock();
        batch->done = i + 1;
        batch->cpu_at_begin = cpu_now();
        batch->began = SteadyClock().now();
      }
      done_.notify_all();
    }
    if (left_alone_) abandoned_->fetch_sub(1, std::memory_order_relaxed);
  }

  std::mutex mutex_;
  std::condition_variable changed_, done_;
  std::shared_ptr<Batch> batch_;  // a batch that has not been started
  bool stopping_ = false;
  bool left_alone_ = false;
  clockid_t clock_ = {};
  bool has_clock_ = false;
  const std::shared_ptr<std::atomic<int>> abandoned_;
};

MaskThread::MaskThread(const MaskLimits& limits)
    : limits_(limits), abandoned_(std::make_shared<std::atomic<int>>(0)) {}

MaskThread::~MaskThread() {
  if (worker_ != nullptr) worker_->stop();
}

void MaskThread::compute(std::span<MaskTask> tasks) {
  while (!tasks.empty()) {
    if (abandoned_->load(std::memory_order_relaxed) >= limits_.most_abandoned) {
      for (MaskTask& each : tasks) {
        each.outlook = error(StatusCode::unavailable,
                             "too many constraints take too long at once; ask again in a moment");
      }
      return;
    }
    const std::size_t done = compute_up_to_limit(tasks);
    if (done == tasks.size()) return;
    MaskTask& late = tasks[done];
    late.filter->abandon();
    late.outlook = TokenFilter::too_costly();
    log::warning("a constraint was given up: computing its mask takes too long");
    worker_ = nullptr;  // a new worker serves the next tasks
    tasks = tasks.subspan(done + 1);
  }
}

std::size_t MaskThread::compute_up_to_limit(std::span<MaskTask> tasks) {
  if (worker_ == nullptr) {
    auto worker = std::make_shared<Worker>(abandoned_);
    worker->start();
    worker_ = std::move(worker);
  }
  const auto batch = std::make_shared<Batch>();
  batch->tasks.reserve(tasks.size());
  std::move(tasks.begin(), tasks.end(), std::back_inserter(batch->tasks));
  worker_->give(batch);
  const std::size_t done = worker_->wait(*batch, limits_);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (i == done) {
      tasks[i].filter = batch->tasks[i].filter;  // the rest of the task belongs to the thread
    } else {
      tasks[i] = std::move(batch->tasks[i]);
    }
  }
  return done;
}

}  // namespace tandem
