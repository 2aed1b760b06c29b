#include "engine/constraint/constraint_compiler.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"
#include "engine/constraint/compiled_constraint.h"
#include "engine/constraint/constraint_check.h"
#include "engine/constraint/grammar_backend.h"

namespace tandem {
namespace {

using Compiled = ConstraintCompiler::Compiled;
using Done = ConstraintCompiler::Done;
using Key = std::pair<TextConstraint::Kind, std::string>;

// Past their deadline and still at it, beside `threads`.
constexpr std::int32_t kMostOverdue = 4;
constexpr Duration kShutdownWait = std::chrono::seconds(5);

// The least recently used goes first.
class CompiledCache {
 public:
  explicit CompiledCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  Compiled find(const Key& key) {
    const auto at = entries_.find(key);
    if (at == entries_.end()) return nullptr;
    order_.splice(order_.begin(), order_, at->second);
    return order_.front().compiled;
  }

  void add(const Key& key, Compiled compiled) {
    const std::size_t bytes = compiled->bytes() + 2 * key.second.size() + sizeof(Entry);
    if (bytes > max_bytes_ || entries_.contains(key)) return;
    order_.push_front({key, std::move(compiled), bytes});
    entries_[key] = order_.begin();
    bytes_ += bytes;
    while (bytes_ > max_bytes_) {
      bytes_ -= order_.back().bytes;
      entries_.erase(order_.back().key);
      order_.pop_back();
    }
  }

 private:
  struct Entry {
    Key key;
    Compiled compiled;
    std::size_t bytes;
  };
  const std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::list<Entry> order_;  // most recently used first
  std::map<Key, std::list<Entry>::iterator> entries_;
};

struct Job {
  TextConstraint constraint;
  TimePoint deadline;
  std::vector<Done> waiting;  // empty: they have been told
  bool started = false;
  bool overdue = false;
};

Status shutting_down() {
  return {StatusCode::unavailable, "the server is shutting down"};
}

}  // namespace

// What the threads share with their owner. All but the backend and the options is guarded by the
// mutex.
class ConstraintCompiler::Shared : public std::enable_shared_from_this<Shared> {
 public:
  Shared(const Tokenizer& tokenizer, std::int32_t vocab_size, std::vector<TokenId> end_tokens,
         const ConstraintOptions& options)
      : options_(options),
        backend_(tokenizer, vocab_size, std::move(end_tokens)),
        cache_(options.cache_bytes) {}

  void compile(const TextConstraint& constraint, Done done) {
    const Key key{constraint.kind, constraint.text};
    Result<Compiled> answer = Status(StatusCode::internal, "none");
    {
      const std::lock_guard lock(mutex_);
      if (Compiled known = cache_.find(key)) {
        answer = known->condemned() ? Result<Compiled>(too_costly()) : Result<Compiled>(known);
      } else if (stopping_) {
        answer = shutting_down();
      } else if (const auto at = jobs_.find(key); at != jobs_.end() && !at->second->overdue) {
        at->second->waiting.push_back(std::move(done));
        return;
      } else if (at != jobs_.end()) {
        answer = too_long();
      } else if (const Status bad = check_constraint(constraint); !bad) {
        answer = bad;
      } else if (overdue_ >= kMostOverdue || queue_.size() >= options_.max_waiting) {
        answer = error(StatusCode::resource_exhausted,
                       "too many constraints are being compiled; ask again in a moment");
      } else if (!start_threads()) {
        answer = error(StatusCode::resource_exhausted, "no thread could be started to compile it");
      } else {
        auto job = std::make_shared<Job>();
        job->constraint = constraint;
        job->deadline = SteadyClock().now() + options_.deadline;
        job->waiting.push_back(std::move(done));
        jobs_[key] = job;
        queue_.push_back(std::move(job));
        changed_.notify_all();
        return;
      }
    }
    done(std::move(answer));
  }

  void stop() {
    std::vector<Done> told;
    {
      std::unique_lock lock(mutex_);
      stopping_ = true;
      for (const auto& [key, job] : jobs_) take_waiting(*job, told);
      queue_.clear();
      changed_.notify_all();
      ended_.wait_for(lock, kShutdownWait, [this] { return running_threads_ == 0; });
      if (running_threads_ > 0) log::warning("a constraint is still being compiled: left behind");
    }
    for (const Done& done : told) done(shutting_down());
  }

 private:
  static Status too_long() {
    return invalid("the constraint takes too long to compile: simplify it");
  }
  static Status too_costly() {
    return invalid("the constraint is too costly: of each token it leaves too much open");
  }

  static void take_waiting(Job& job, std::vector<Done>& out) {
    out.insert(out.end(), std::make_move_iterator(job.waiting.begin()),
               std::make_move_iterator(job.waiting.end()));
    job.waiting.clear();
  }

  // False: there are none to be had now.
  bool start_threads() {
    if (!has_keeper_) has_keeper_ = start([](Shared& self) { self.keep_deadlines(); });
    while (workers_ < options_.threads && start([](Shared& self) { self.work(); })) ++workers_;
    return has_keeper_ && workers_ > 0;
  }

  // Detached, with a share of what they work on: one that XGrammar does not give back must not keep
  // its owner from ending.
  bool start(void (*run)(Shared&)) {
    ++running_threads_;
    try {
      std::thread([self = shared_from_this(), run] {
        run(*self);
        const std::lock_guard lock(self->mutex_);
        --self->running_threads_;
        self->ended_.notify_all();
      }).detach();
      return true;
    } catch (const std::system_error&) {
      --running_threads_;
      return false;
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      const std::shared_ptr<Job> job = std::move(queue_.front());
      queue_.pop_front();
      job->started = true;
      lock.unlock();
      Result<Compiled> compiled = backend_.compile(job->constraint);
      lock.lock();
      const Key key{job->constraint.kind, job->constraint.text};
      if (compiled) cache_.add(key, *compiled);
      jobs_.erase(key);
      std::vector<Done> told;
      take_waiting(*job, told);
      const bool replaced = job->overdue;
      if (replaced) --overdue_;
      lock.unlock();
      for (const Done& done : told) done(compiled);
      lock.lock();
      if (replaced) return;  // another thread has its place
    }
  }

  void keep_deadlines() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      std::vector<Done> told;
      std::optional<TimePoint> next;
      const TimePoint now = SteadyClock().now();
      for (auto at = jobs_.begin(); at != jobs_.end();) {
        Job& job = *at->second;
        if (job.overdue || job.deadline > now) {
          if (!job.overdue) next = std::min(next.value_or(job.deadline), job.deadline);
          ++at;
          continue;
        }
        take_waiting(job, told);
        if (job.started) {
          job.overdue = true;
          ++overdue_;
          --workers_;
          ++at;
        } else {
          std::erase(queue_, at->second);
          at = jobs_.erase(at);
        }
      }
      (void)start_threads();  // in the place of those
      if (!told.empty()) {
        lock.unlock();
        for (const Done& done : told) done(too_long());
        lock.lock();
      } else if (next) {
        changed_.wait_until(lock, *next);
      } else {
        changed_.wait(lock);
      }
    }
  }

  const ConstraintOptions options_;
  GrammarBackend backend_;
  std::mutex mutex_;
  std::condition_variable changed_, ended_;
  CompiledCache cache_;
  std::map<Key, std::shared_ptr<Job>> jobs_;  // waiting and running
  std::deque<std::shared_ptr<Job>> queue_;    // waiting
  std::int32_t running_threads_ = 0;          // of all kinds
  std::int32_t workers_ = 0;                  // those that are past a deadline not among them
  bool has_keeper_ = false;
  std::int32_t overdue_ = 0;
  bool stopping_ = false;
};

ConstraintCompiler::ConstraintCompiler(const Tokenizer& tokenizer, std::int32_t vocab_size,
                                       std::vector<TokenId> end_tokens,
                                       const ConstraintOptions& options)
    : shared_(std::make_shared<Shared>(tokenizer, vocab_size, std::move(end_tokens), options)) {}

ConstraintCompiler::~ConstraintCompiler() {
  shared_->stop();
}

void ConstraintCompiler::compile(const TextConstraint& constraint, Done done) {
  shared_->compile(constraint, std::move(done));
}

Result<Compiled> ConstraintCompiler::compile_now(const TextConstraint& constraint) {
  auto promise = std::make_shared<std::promise<Result<Compiled>>>();
  std::future<Result<Compiled>> answer = promise->get_future();
  shared_->compile(constraint,
                   [promise](Result<Compiled> result) { promise->set_value(std::move(result)); });
  return answer.get();  // the keeper sees to it that it comes
}

}  // namespace tandem
