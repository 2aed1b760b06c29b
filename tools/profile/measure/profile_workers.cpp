#include "tools/profile/measure/profile_workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "cpu_lora/worker/line_wait.h"
#include "cpu_lora/worker/worker_loop.h"
#include "cpu_lora/worker_pool/worker_speeds.h"
#include "engine/loader/random_fill.h"
#include "shm/jobs.h"
#include "shm/mailbox.h"
#include "tools/cli/runs_on.h"
#include "tools/profile/fit/rounds.h"

namespace tandem {
namespace {

constexpr std::uint32_t kMaxRank = 64;
constexpr std::uint32_t kMaxRows = 256;
constexpr double kPatienceS = 5;  // timeout of one answer

class ProfiledWorker {
 public:
  ProfiledWorker(WorkerLoop loop, int cpu)
      : loop_(std::move(loop)), thread_([this, cpu] {
          const RunsOn its_cpu(cpu);
          loop_.run(stop_, [] { return true; });
        }) {}
  ~ProfiledWorker() {
    // relaxed: it only ends the loop and publishes no data.
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
  }
  ProfiledWorker(const ProfiledWorker&) = delete;
  ProfiledWorker& operator=(const ProfiledWorker&) = delete;

 private:
  std::atomic<bool> stop_ = false;
  WorkerLoop loop_;
  std::thread thread_;
};

struct ProfiledJob {
  std::uint32_t workers = 1;
  std::uint32_t rank = 64;
  std::uint32_t rows = 1;
  std::uint32_t groups = 1;
  JobSplit split = JobSplit::columns;
  bool has_gap = true;
};

// The weights, which are created only once because filling them takes longer than reading them.
struct WorkerWeights {
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  Status prepare(const ProfileTarget& target, std::size_t least_bytes) {
    bytes = std::max(weight_bytes(target), least_bytes) / 4096 * 4096;
    data.reset(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
    if (data == nullptr) {
      return error(StatusCode::resource_exhausted, "no {} bytes for weights", bytes);
    }
    random_fill(1, 0, bytes / size_of(target.dtype), 0, 0.1F, target.dtype, data.get());
    return {};
  }

  std::unique_ptr<std::byte[], Free> data;
  std::size_t bytes = 0;
  std::size_t next = 0;  // offset of the next job's weights
};

std::array<std::int64_t, 3> outs_of(const ModelSpec& c) {
  return {c.q_size(), c.kv_size(), c.kv_size()};
}

std::size_t layer_bytes(const ProfileTarget& target, std::uint32_t rank) {
  std::int64_t elements = 0;
  for (const std::int64_t out : outs_of(target.spec)) {
    elements += rank * (target.spec.hidden_size + out);
  }
  return static_cast<std::size_t>(elements) * size_of(target.dtype);
}

// Workers for one pass. They spin while they exist, so they must not exist during other stages.
class ProfiledWorkers {
 public:
  ProfiledWorkers(const ProfileTarget& target, WorkerWeights& weights, double gap_s)
      : target_(target), weights_(weights), gap_s_(gap_s) {}

  Status prepare() {
    const ModelSpec& c = target_.spec;
    outs_ = outs_of(c);
    MailboxShape shape;
    shape.dtype = target_.dtype;
    shape.num_worker_slots = static_cast<std::uint32_t>(target_.worker_cpus.size());
    shape.max_rows = kMaxRows;
    shape.max_in = static_cast<std::uint32_t>(c.hidden_size);
    shape.max_out = static_cast<std::uint32_t>(outs_[0] + outs_[1] + outs_[2]);
    shape.max_rank = kMaxRank;
    TANDEM_ASSIGN(Mailbox mailbox, Mailbox::create(shape, -1));
    mailbox_ = std::make_unique<Mailbox>(std::move(mailbox));
    x_.resize(std::size_t{kMaxRows} * shape.max_in * size_of(target_.dtype));
    random_fill(2, 0, x_.size() / size_of(target_.dtype), 0, 1, target_.dtype, x_.data());
    for (std::size_t worker_slot = 0; worker_slot < target_.worker_cpus.size(); ++worker_slot) {
      WorkerLoopOptions options;
      options.worker_slot = static_cast<int>(worker_slot);
      options.cpu = target_.worker_cpus[worker_slot];
      options.spin_ms = 1000;  // so that they do not sleep during the measurement
      TANDEM_ASSIGN(WorkerLoop loop,
                    WorkerLoop::create(*mailbox_, {weights_.data.get(), weights_.bytes}, options));
      workers_.push_back(std::make_unique<ProfiledWorker>(std::move(loop), options.cpu));
    }
    return wait([&] {
      for (int worker_slot = 0; worker_slot < static_cast<int>(workers_.size()); ++worker_slot) {
        // acquire: pairs with the worker's release when it has started
        if (mailbox_->worker_slot(worker_slot).state.load(std::memory_order_acquire) <
            WorkerSlotState::working) {
          return false;
        }
      }
      return true;
    });
  }

  // The median time of a few jobs of this kind.
  Result<double> time(const ProfiledJob& c) {
    constexpr int kJobs = 9;
    std::vector<double> seconds;
    speeds_ = {};  // speeds are measured anew for this kind of job
    TANDEM_TRY(publish(c));
    for (int job = -2; job < kJobs; ++job) {
      // The next job is published before this one is offered, as in a step.
      TANDEM_TRY(publish(c));
      TANDEM_ASSIGN(const double took, offer(c));
      if (job >= 0) seconds.push_back(took);
    }
    TANDEM_TRY(offer(c).status());
    return median_of(std::move(seconds));
  }
  std::vector<double> row(const ProfiledJob& c, double seconds) const {
    const auto bytes = static_cast<double>(c.groups * layer_bytes(target_, c.rank));
    return {static_cast<double>(c.workers),
            static_cast<double>(c.rank),
            static_cast<double>(c.rows),
            c.split == JobSplit::tokens ? 1.0 : 0.0,
            static_cast<double>(c.groups),
            c.has_gap ? gap_s_ : 0,
            bytes,
            2 * bytes / static_cast<double>(size_of(target_.dtype)) * c.rows,
            seconds};
  }

 private:
  template <typename Condition>
  Status wait(Condition condition) {
    const TimePoint end = clock_.now() + duration_of(kPatienceS);
    for (int looks = 1; !condition(); ++looks) {
      relax();
      if (looks % 1024 == 0 && clock_.now() > end) {
        return error(StatusCode::unavailable, "CPU workers did not answer within {} s", kPatienceS);
      }
    }
    return {};
  }

  Status publish(const ProfiledJob& c) {
    std::array<GroupJob, 8> groups;
    const std::size_t size = layer_bytes(target_, c.rank);
    for (std::uint32_t g = 0; g < c.groups; ++g) {
      GroupJob& job = groups[g] = {};
      job.workers = (c.workers == 64 ? 0 : std::uint64_t{1} << c.workers) - 1;
      job.group = g;
      job.rows = c.rows;
      job.first_row = g * c.rows;
      job.in = static_cast<std::uint32_t>(target_.spec.hidden_size);
      job.out = static_cast<std::uint32_t>(outs_[0] + outs_[1] + outs_[2]);
      job.num_modules = 3;
      job.split = c.split;
      job.rank_columns = 3 * c.rank;
      if (weights_.next + size > weights_.bytes) weights_.next = 0;
      std::uint64_t at = weights_.next;
      weights_.next += (size + 63) / 64 * 64;
      std::uint32_t column = 0;
      const std::size_t element = size_of(target_.dtype);
      for (std::size_t m = 0; m < 3; ++m) {
        JobMatrix& matrix = job.modules[m];
        matrix.a = at;
        at += static_cast<std::size_t>(target_.spec.hidden_size) * c.rank * element;
        matrix.b = at;
        at += static_cast<std::size_t>(outs_[m]) * c.rank * element;
        matrix.rank = matrix.b_stride = c.rank;
        matrix.out = static_cast<std::uint32_t>(outs_[m]);
        matrix.column = column;
        column += matrix.out;
      }
    }
    publish_job(*mailbox_, ++published_, groups.data(), c.groups, speeds_.weights());
    return {};
  }

  // Rings the doorbells of the next job, waits for all its answers, and then waits for the gap.
  Result<double> offer(const ProfiledJob& c) {
    const std::uint64_t sequence = ++offered_;
    const std::size_t x_bytes = static_cast<std::size_t>(target_.spec.hidden_size) *
                                size_of(target_.dtype) * c.rows * c.groups;
    std::memcpy(mailbox_->x_of(0), x_.data(), x_bytes);
    const TimePoint start = clock_.now();
    for (std::uint32_t g = 0; g < c.groups; ++g) {
      // release: as on the device, after the rows; pairs with the worker's acquire
      mailbox_->doorbells()[g].value.store(doorbell_of(sequence, Ticket::cpu),
                                           std::memory_order_release);
    }
    TANDEM_TRY(wait([&] {
      for (std::uint32_t w = 0; w < c.workers; ++w) {
        for (std::uint32_t g = 0; g < c.groups; ++g) {
          // acquire: pairs with the worker's release of its answer
          const auto& done = mailbox_->worker_slot(static_cast<int>(w)).done[g];
          if (done.load(std::memory_order_acquire) != sequence) return false;
        }
      }
      return true;
    }));
    const TimePoint end = clock_.now();
    retire_before(*mailbox_, sequence);
    speeds_.look(*mailbox_);
    const double gap_s = c.has_gap ? gap_s_ : 0;
    while (seconds_between(end, clock_.now()) < gap_s) relax();
    return seconds_between(start, end);
  }

  const ProfileTarget& target_;
  WorkerWeights& weights_;
  const double gap_s_;
  const SteadyClock clock_{};
  std::array<std::int64_t, 3> outs_{};
  std::unique_ptr<Mailbox> mailbox_;
  WorkerSpeeds speeds_;
  std::vector<std::byte> x_;
  std::uint64_t published_ = 0;
  std::uint64_t offered_ = 0;
  // Destroyed before the memory that they read.
  std::vector<std::unique_ptr<ProfiledWorker>> workers_;
};

class WorkerStage : public ProfileStage {
 public:
  explicit WorkerStage(const ProfileTarget& target) : target_(target) {}

  Status prepare() {
    TANDEM_TRY(weights_.prepare(target_, 2 * layer_bytes(target_, kMaxRank)));
    const auto most = static_cast<std::uint32_t>(target_.worker_cpus.size());
    std::vector<std::uint32_t> counts;
    for (std::uint32_t count = 1; count < most; count *= 2) counts.push_back(count);
    counts.push_back(most);
    for (const std::uint32_t workers : counts) {
      for (const std::uint32_t rank : {16U, 64U}) {
        for (const std::uint32_t rows : {1U, 8U, 16U, 32U, 64U, 128U, 256U}) {
          if (target_.quick && rows > 64) break;
          add_splits({workers, rank, rows, 1});
        }
      }
      // A burst: more groups than workers can read ahead.
      for (const std::uint32_t rows : {1U, 8U, 32U}) {
        add_splits({workers, kMaxRank, rows, 8});
      }
      // The same groups without a gap, so that nothing can be read ahead.
      for (const std::uint32_t groups : {2U, 8U}) {
        add_splits({workers, kMaxRank, 1, groups, JobSplit::columns, false});
      }
    }
    return {};
  }

  Status measure(PassTables& tables) override {
    const RunsOn doorbell_cpu(target_.engine_cpus.empty() ? -1 : target_.engine_cpus.back());
    ProfiledWorkers timer(target_, weights_, gap_of(tables));
    TANDEM_TRY(timer.prepare());
    TANDEM_ASSIGN(const std::vector<double> seconds,
                  time_by_turns(clock_, jobs_.size(), 5, 0.25,
                                [&](std::size_t i) { return timer.time(jobs_[i]); }));
    ProfileTable& table = tables.emplace_back(ProfileTable{
        "worker",
        {"workers", "rank", "rows", "by_tokens", "groups", "gap_s", "bytes", "flops", "seconds"},
        {}});
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      table.rows.push_back(timer.row(jobs_[i], seconds[i]));
    }
    return {};
  }

 private:
  void add_splits(ProfiledJob job) {
    jobs_.push_back(job);
    if (job.workers == 1) return;  // a single worker computes the same in both splits
    job.split = JobSplit::tokens;
    jobs_.push_back(job);
  }

  double gap_of(const PassTables& tables) const {
    double layer_s = CostModel{}.layer_s;
    for (const ProfileTable& table : tables) {
      if (table.name != "prefill" || table.rows.empty()) continue;
      const std::vector<double> seconds = table.column("seconds");
      layer_s = *std::min_element(seconds.begin(), seconds.end()) /
                static_cast<double>(target_.spec.num_layers());
    }
    return std::min(0.7 * layer_s, 2e-4);
  }

  const ProfileTarget& target_;
  const SteadyClock clock_{};
  WorkerWeights weights_;
  std::vector<ProfiledJob> jobs_;
};

}  // namespace

MadeStage make_worker_stage(const ProfileTarget& target) {
  auto stage = std::make_unique<WorkerStage>(target);
  TANDEM_TRY(stage->prepare());
  return std::unique_ptr<ProfileStage>(std::move(stage));
}

}  // namespace tandem
