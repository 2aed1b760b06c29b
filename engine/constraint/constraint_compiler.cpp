#include "engine/constraint/constraint_compiler.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <future>
#include <iterator>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/limits/bytes_text.h"
#include "base/log/log.h"
#include "engine/constraint/check/constraint_check.h"
#include "engine/constraint/compiled_cache.h"
#include "engine/constraint/compiled_constraint.h"
#include "engine/constraint/grammar_backend.h"
#include "engine/constraint/token_filter.h"

namespace tandem {
namespace {

using Compiled = ConstraintCompiler::Compiled;
using Done = ConstraintCompiler::Done;
using Key = CompiledCache::Key;

struct Job {
  TextConstraint constraint;
  TimePoint deadline;
  std::vector<Done> waiting;
};

// A queue with a thread. Jobs start in the order of their deadlines, and each ends by its own, so
// no job waits longer than its deadline.
struct Lane {
  CompileLimits limits;
  std::deque<std::shared_ptr<Job>> queue;
  std::unique_ptr<CompileProcess> process;  // null: not started, or not used
  std::thread thread;
};

Key key_of(const TextConstraint& constraint) {
  return {constraint.kind, constraint.text};
}

Status shutting_down() {
  return {StatusCode::unavailable, "the server is shutting down"};
}
Status too_long() {
  return invalid("the constraint takes too long to compile: simplify it");
}
Status too_many() {
  return error(StatusCode::resource_exhausted,
               "too many constraints are being compiled; ask again in a moment");
}

// The outcome of a job in a lane.
struct Outcome {
  Result<Compiled> result;
  bool lost_process = false;  // the job ended the process
  bool is_final = false;      // a limit was exceeded, which would happen again
};

}  // namespace

// The mutex guards everything except the backend, the options, and a lane's process, which only the
// lane's thread uses.
class ConstraintCompiler::Lanes {
 public:
  Lanes(const Tokenizer& tokenizer, std::int32_t vocab_size, std::vector<TokenId> end_tokens,
        const ConstraintOptions& options)
      : options_(options),
        backend_(tokenizer, vocab_size, std::move(end_tokens)),
        cache_(options.cache_bytes) {
    quick_.limits = options.quick;
    slow_.limits = options.slow;
  }

  ~Lanes() {
    std::vector<Done> told;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      for (const auto& [key, job] : jobs_) take_waiting(*job, told);
      for (Lane* lane : {&quick_, &slow_}) {
        if (lane->process != nullptr) lane->process->cancel();
      }
      changed_.notify_all();
    }
    for (const Done& done : told) done(shutting_down());
    for (Lane* lane : {&quick_, &slow_}) {
      if (lane->thread.joinable()) lane->thread.join();
    }
  }
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  void compile(const TextConstraint& constraint, Done done) {
    const Key key = key_of(constraint);
    Result<Compiled> answer = Status(StatusCode::internal, "none");
    {
      const std::lock_guard lock(mutex_);
      if (std::optional<Result<Compiled>> known = cache_.find(key)) {
        answer =
            *known && (**known)->condemned() ? Result<Compiled>(TokenFilter::too_costly()) : *known;
      } else if (stopping_) {
        answer = shutting_down();
      } else if (const auto at = jobs_.find(key); at != jobs_.end()) {
        at->second->waiting.push_back(std::move(done));
        return;
      } else if (const Status bad = check_constraint(constraint); !bad) {
        answer = bad;
      } else {
        auto job = std::make_shared<Job>();
        job->constraint = constraint;
        job->deadline = SteadyClock().now() + options_.deadline;
        if (const Status queued = enqueue(quick_, job); queued) {
          job->waiting.push_back(std::move(done));
          jobs_[key] = std::move(job);
          return;
        } else {
          answer = queued;
        }
      }
    }
    done(std::move(answer));
  }

 private:
  static void take_waiting(Job& job, std::vector<Done>& out) {
    out.insert(out.end(), std::make_move_iterator(job.waiting.begin()),
               std::make_move_iterator(job.waiting.end()));
    job.waiting.clear();
  }

  Status enqueue(Lane& lane, const std::shared_ptr<Job>& job) {
    if (lane.queue.size() >= options_.max_waiting) return too_many();
    TANDEM_TRY(begin(lane));
    lane.queue.push_back(job);
    changed_.notify_all();
    return {};
  }

  Status begin(Lane& lane) {
    if (lane.thread.joinable()) return {};
    if (options_.program && lane.process == nullptr) {
      TANDEM_ASSIGN(lane.process, CompileProcess::create(*options_.program, lane.limits, backend_));
    }
    try {
      lane.thread = std::thread([this, &lane] { work(lane); });
    } catch (const std::system_error&) {
      return error(StatusCode::resource_exhausted, "no thread could be started to compile it");
    }
    return {};
  }

  // The body of a lane's thread. Its process lives as long as the thread.
  void work(Lane& lane) {
    pthread_setname_np(pthread_self(), &lane == &quick_ ? "constraints" : "slow constr.");
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !lane.queue.empty(); });
      if (stopping_) return;
      const std::shared_ptr<Job> job = std::move(lane.queue.front());
      lane.queue.pop_front();
      lock.unlock();
      const Outcome outcome = run(lane, *job);
      lock.lock();
      if (outcome.lost_process && &lane == &quick_ && !stopping_) {
        if (const Status queued = enqueue(slow_, job); !queued) finish(*job, {queued, true}, lock);
      } else {
        finish(*job, outcome, lock);
      }
      if (!outcome.lost_process || stopping_) continue;
      lock.unlock();
      lane.process->start_ahead();
      lock.lock();
    }
  }

  // Called without the mutex.
  Outcome run(Lane& lane, const Job& job) {
    if (lane.process == nullptr) return {backend_.compile(job.constraint)};
    if (SteadyClock().now() >= job.deadline) return {too_many()};
    const CompileAnswer answer = lane.process->compile(job.constraint, job.deadline);
    switch (answer.kind) {
      case CompileAnswer::Kind::compiled:
        return {backend_.adopt(job.constraint, answer.text)};
      case CompileAnswer::Kind::refused:
        return {Status(StatusCode::invalid_argument, answer.text)};
      case CompileAnswer::Kind::exceeded:
        return {Status(StatusCode::invalid_argument, answer.text), true, true};
      case CompileAnswer::Kind::crashed:
        return {Status(StatusCode::invalid_argument, answer.text), true};
      case CompileAnswer::Kind::late:
        return {too_long()};
      case CompileAnswer::Kind::unavailable:
        return {Status(StatusCode::unavailable, answer.text)};
      case CompileAnswer::Kind::cancelled:
        break;
    }
    return {shutting_down()};
  }

  // Unlocks the mutex while the callbacks run.
  void finish(Job& job, const Outcome& outcome, std::unique_lock<std::mutex>& lock) {
    const Key key = key_of(job.constraint);
    if (outcome.result || outcome.is_final) cache_.add(key, outcome.result);
    if (outcome.lost_process) {
      log::warning("a constraint of {} was given up: {}", size_text(job.constraint.text.size()),
                   outcome.result.status().message());
    }
    jobs_.erase(key);
    std::vector<Done> told;
    take_waiting(job, told);
    lock.unlock();
    for (const Done& done : told) done(outcome.result);
    lock.lock();
  }

  const ConstraintOptions options_;
  GrammarBackend backend_;
  std::mutex mutex_;
  std::condition_variable changed_;
  CompiledCache cache_;
  std::map<Key, std::shared_ptr<Job>> jobs_;  // waiting and running jobs
  Lane quick_, slow_;
  bool stopping_ = false;
};

ConstraintCompiler::ConstraintCompiler(const Tokenizer& tokenizer, std::int32_t vocab_size,
                                       std::vector<TokenId> end_tokens,
                                       const ConstraintOptions& options)
    : lanes_(std::make_unique<Lanes>(tokenizer, vocab_size, std::move(end_tokens), options)) {}

ConstraintCompiler::~ConstraintCompiler() = default;

void ConstraintCompiler::compile(const TextConstraint& constraint, Done done) {
  lanes_->compile(constraint, std::move(done));
}

Result<Compiled> ConstraintCompiler::compile_now(const TextConstraint& constraint) {
  auto promise = std::make_shared<std::promise<Result<Compiled>>>();
  std::future<Result<Compiled>> answer = promise->get_future();
  lanes_->compile(constraint,
                  [promise](Result<Compiled> result) { promise->set_value(std::move(result)); });
  return answer.get();  // cannot block forever, because of the job's deadline
}

}  // namespace tandem
