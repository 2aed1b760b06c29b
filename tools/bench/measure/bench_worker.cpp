#include "tools/bench/measure/bench_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/memory/aligned_bytes.h"
#include "base/onednn/matmul.h"
#include "cpu_lora/worker/line_wait.h"
#include "cpu_lora/worker/worker_loop.h"
#include "cpu_lora/worker_pool/worker_speeds.h"
#include "engine/loader/random_fill.h"
#include "shm/jobs.h"
#include "shm/region.h"
#include "tools/bench/measure/bench_peaks.h"
#include "tools/cli/runs_on.h"

namespace tandem {
namespace {

using std::chrono::steady_clock;

constexpr double kPatienceS = 2;  // timeout of one answer
constexpr int kWarmUp = 20;
constexpr double kCaseS = 2;  // limit per case: fewer rounds on a slow machine
constexpr int kFewestRounds = 3;
constexpr double kAheadS = 300e-6;  // time between the description and the doorbell
constexpr std::uint64_t kLine = 64;

// Moves data from this core's caches to the shared one, where a device's writes would be.
void demote(const std::byte* data, std::size_t bytes) {
#if defined(__x86_64__)
  // CLDEMOTE is a hint; CPUs that do not know it treat it as a no-operation.
  for (std::size_t at = 0; at < bytes; at += kLine) {
    asm volatile("cldemote %0" ::"m"(data[at]));
  }
#endif
}

}  // namespace

struct WorkerBench::Impl {
  explicit Impl(Mailbox made) : mailbox(std::move(made)) {}
  ~Impl() {
    stop.store(true, std::memory_order_relaxed);
    stop_workers(mailbox);
    for (std::thread& thread : threads) thread.join();
  }

  Status start();
  GroupJob describe(const WorkerCase& it);
  void write_rows(const GroupJob& job);
  Result<double> round_trip(const WorkerCase& it, const GroupJob& job);
  Status check(const WorkerCase& it, const GroupJob& job) const;
  Status check_at(const WorkerCase& it, const GroupJob& job, std::uint32_t module,
                  std::uint32_t row, std::uint32_t column) const;
  double value(const std::byte* from, std::uint64_t index) const {
    float out = 0;
    const std::size_t element = size_of(options.dtype);
    convert(options.dtype, from + index * element, DType::f32, &out, 1);
    return out;
  }
  double shrunk(const GroupJob& job, const JobMatrix& matrix, std::uint32_t row,
                std::uint32_t rank) const;

  WorkerBenchOptions options;
  Mailbox mailbox;
  WorkerSpeeds speeds;
  ShmRegion arena;
  std::uint64_t next_weights = 0;  // offset in the arena
  std::uint64_t sequence = 0;
  std::uint32_t generation = 0;  // value that marks the weights as present
  std::uint64_t x_key = 1;
  std::vector<std::byte> x;
  std::atomic<bool> stop{false};
  std::vector<WorkerLoop> loops;
  std::vector<std::thread> threads;
};

Status WorkerBench::Impl::start() {
  TANDEM_ASSIGN(arena, ShmRegion::create("bench-arena", options.arena_bytes));
  random_fill(7, 0, options.arena_bytes / size_of(options.dtype), 0, 1.0F / 64, options.dtype,
              arena.data());
  loops.reserve(options.cpus.size());
  for (std::size_t i = 0; i < options.cpus.size(); ++i) {
    WorkerLoopOptions loop_options;
    loop_options.worker_slot = static_cast<int>(i);
    loop_options.cpu = options.cpus[i];
    loop_options.spin_ms = 1000;
    loop_options.peer_ms = 1e3 * kPatienceS;
    loop_options.product = options.product;
    TANDEM_ASSIGN(WorkerLoop loop,
                  WorkerLoop::create(mailbox, {arena.data(), arena.bytes()}, loop_options));
    loops.push_back(std::move(loop));
  }
  for (std::size_t i = 0; i < loops.size(); ++i) {
    threads.emplace_back([this, i] {
      const RunsOn its_cpu(options.cpus[i]);
      loops[i].run(stop, [] { return true; });
    });
  }
  const TimePoint deadline = steady_clock::now() + std::chrono::seconds(10);
  for (std::size_t i = 0; i < loops.size(); ++i) {
    while (mailbox.worker_slot(static_cast<int>(i)).state.load(std::memory_order_acquire) <
           WorkerSlotState::working) {
      if (steady_clock::now() > deadline) {
        return error(StatusCode::unavailable, "worker {} does not start", i);
      }
      std::this_thread::yield();
    }
  }
  return {};
}

// Describes a job with the next weights of the arena.
GroupJob WorkerBench::Impl::describe(const WorkerCase& it) {
  GroupJob job;
  job.workers = it.workers >= 64 ? ~0ULL : (std::uint64_t{1} << it.workers) - 1;
  job.rows = it.rows;
  job.in = options.in;
  job.split = it.split;
  job.num_modules = static_cast<std::uint32_t>(options.outs.size());
  job.present = arena.bytes() - kLine;
  job.present_value = it.cold ? ++generation : 0;
  const std::uint32_t stride = (it.rank + 7) / 8 * 8;
  const auto bytes_of = [&](std::uint64_t elements) {
    return (elements * size_of(options.dtype) + kLine - 1) / kLine * kLine;
  };
  std::uint64_t bytes = 0;
  for (const std::uint32_t out : options.outs) {
    bytes += bytes_of(std::uint64_t{it.rank} * options.in) + bytes_of(std::uint64_t{out} * stride);
  }
  if (next_weights + bytes + kLine > arena.bytes()) next_weights = 0;
  for (std::uint32_t m = 0; m < job.num_modules; ++m) {
    JobMatrix& matrix = job.modules[m];
    matrix.rank = it.rank;
    matrix.b_stride = stride;
    matrix.out = options.outs[m];
    matrix.column = job.out;
    matrix.a = next_weights;
    matrix.b = matrix.a + bytes_of(std::uint64_t{it.rank} * options.in);
    next_weights = matrix.b + bytes_of(std::uint64_t{matrix.out} * stride);
    job.out += matrix.out;
    job.rank_columns += it.rank;
  }
  return job;
}

void WorkerBench::Impl::write_rows(const GroupJob& job) {
  const std::size_t count = std::size_t{job.rows} * job.in;
  const std::size_t bytes = count * size_of(options.dtype);
  // Takes other numbers each time, from a stock of random ones.
  const std::size_t from = (x_key++ * 7919 * kLine) % (x.size() - bytes);
  std::memcpy(mailbox.x_of(0), x.data() + from / kLine * kLine, bytes);
  demote(mailbox.x_of(0), bytes);
}

// Returns the seconds from the doorbell until every answer is seen.
Result<double> WorkerBench::Impl::round_trip(const WorkerCase& it, const GroupJob& job) {
  write_rows(job);
  const TimePoint described = steady_clock::now();
  publish_job(mailbox, ++sequence, &job, 1, speeds.weights());
  while (seconds_between(described, steady_clock::now()) < kAheadS) relax();
  const TimePoint begin = steady_clock::now();
  if (it.cold) {
    // release: pairs with the acquire in WorkerLoop's look at the weights.
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(arena.data() + job.present))
        .store(job.present_value, std::memory_order_release);
  }
  // release: as the device's, pairs with the acquire in the worker's wait for its doorbell.
  mailbox.doorbells()[0].value.store(doorbell_of(sequence, it.xa ? Ticket::cpu_xa : Ticket::cpu),
                                     std::memory_order_release);
  for (std::uint32_t worker_slot = 0; worker_slot < it.workers; ++worker_slot) {
    const std::atomic<std::uint64_t>& done =
        mailbox.worker_slot(static_cast<int>(worker_slot)).done[0];
    // acquire: as the device's, pairs with the worker's release of `done`.
    for (int spins = 1; done.load(std::memory_order_acquire) != sequence; ++spins) {
      relax();
      if (spins % 1024 == 0 && seconds_between(begin, steady_clock::now()) > kPatienceS) {
        return error(StatusCode::unavailable, "worker {} does not answer", worker_slot);
      }
    }
  }
  const double seconds = seconds_between(begin, steady_clock::now());
  retire_before(mailbox, sequence);
  speeds.look(mailbox);
  return seconds;
}

double WorkerBench::Impl::shrunk(const GroupJob& job, const JobMatrix& matrix, std::uint32_t row,
                                 std::uint32_t rank) const {
  double sum = 0;
  for (std::uint32_t i = 0; i < job.in; ++i) {
    sum += value(mailbox.x_of(0), std::uint64_t{row} * job.in + i) *
           value(arena.data() + matrix.a, std::uint64_t{rank} * job.in + i);
  }
  return sum;
}

Status WorkerBench::Impl::check_at(const WorkerCase& it, const GroupJob& job, std::uint32_t module,
                                   std::uint32_t row, std::uint32_t column) const {
  const JobMatrix& matrix = job.modules[module];
  double expected = 0;
  double size = 0;
  double got = 0;
  if (it.xa) {
    const std::uint32_t rank = column % matrix.rank;
    expected = shrunk(job, matrix, row, rank);
    size = 1;
    got = mailbox.v_of(0)[std::uint64_t{row} * job.rank_columns + module * it.rank + rank];
  } else {
    for (std::uint32_t r = 0; r < matrix.rank; ++r) {
      const double part =
          shrunk(job, matrix, row, r) *
          value(arena.data() + matrix.b, std::uint64_t{column} * matrix.b_stride + r);
      expected += part;
      size += std::abs(part);
    }
    got = value(mailbox.y_of(0), std::uint64_t{row} * job.out + matrix.column + column);
  }
  const double most = 1e-4 * (1 + size) + (options.dtype == DType::f32 ? 0 : size / 100);
  if (std::abs(got - expected) <= most) return {};
  return error(StatusCode::internal,
               "{} rows, rank {}, {} workers: module {} row {} column {} is {} instead of {}",
               it.rows, it.rank, it.workers, module, row, column, got, expected);
}

Status WorkerBench::Impl::check(const WorkerCase& it, const GroupJob& job) const {
  for (std::uint32_t i = 0; i < 64; ++i) {
    const std::uint32_t module = i % job.num_modules;
    TANDEM_TRY(check_at(it, job, module, i * 37 % job.rows, i * 2477 % job.modules[module].out));
  }
  return {};
}

WorkerBench::WorkerBench(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WorkerBench::~WorkerBench() = default;

Result<std::unique_ptr<WorkerBench>> WorkerBench::create(const WorkerBenchOptions& options) {
  MailboxShape shape;
  shape.dtype = options.dtype;
  shape.num_worker_slots = static_cast<std::uint32_t>(options.cpus.size());
  shape.max_rows = options.max_rows;
  shape.max_in = options.in;
  shape.max_rank = options.max_rank;
  for (const std::uint32_t out : options.outs) shape.max_out += out;
  TANDEM_ASSIGN(Mailbox mailbox, Mailbox::create(shape, -1));
  auto impl = std::make_unique<Impl>(std::move(mailbox));
  impl->options = options;
  impl->x.resize(2 * std::size_t{options.max_rows} * options.in * size_of(options.dtype) + kLine);
  random_fill(3, 0, impl->x.size() / size_of(options.dtype), 0, 1, options.dtype, impl->x.data());
  TANDEM_TRY(impl->start());
  return std::unique_ptr<WorkerBench>(new WorkerBench(std::move(impl)));
}

Result<WorkerTimes> WorkerBench::time(const WorkerCase& it, int rounds) {
  Impl& bench = *impl_;
  if (it.workers == 0 || it.workers > bench.options.cpus.size() ||
      it.rows > bench.options.max_rows || it.rank > bench.options.max_rank) {
    return invalid("{} workers, {} rows, rank {} are more than the benchmark was made for",
                   it.workers, it.rows, it.rank);
  }
  const RunsOn doorbell_cpu(bench.options.doorbell_cpu);
  WorkerTimes times;
  times.samples.unit = "us";
  times.samples.name =
      fmt::format("{}{} rows, rank {}, {} workers by {}", it.xa ? "xA, " : "", it.rows, it.rank,
                  it.workers, it.split == JobSplit::columns ? "columns" : "tokens");
  if (!it.cold) times.samples.name += ", weights packed ahead";
  bench.speeds = {};  // of jobs like these
  const TimePoint start = steady_clock::now();
  int warm_up = kWarmUp;
  for (int i = 0; i < warm_up + rounds; ++i) {
    if (seconds_between(start, steady_clock::now()) > kCaseS) {
      warm_up = std::min(warm_up, i);
      if (i - warm_up >= kFewestRounds) break;
    }
    const GroupJob job = bench.describe(it);
    if (i == 0) {
      const std::size_t bytes = std::size_t{job.rows} * job.out * size_of(bench.options.dtype);
      std::memset(bench.mailbox.y_of(0), 0xff, bytes);  // NaNs show unwritten elements
      for (const JobMatrix& matrix : job.modules) {
        const auto rank = std::uint64_t{matrix.rank};
        const std::uint64_t a = rank * job.in;
        const std::uint64_t b = it.xa ? 0 : rank * matrix.out;
        times.weight_bytes += (a + b) * size_of(bench.options.dtype);
        times.flops += 2.0 * static_cast<double>(a + b) * job.rows;
      }
    }
    TANDEM_ASSIGN(const double seconds, bench.round_trip(it, job));
    if (i == 0) TANDEM_TRY(bench.check(it, job));
    if (i >= warm_up) times.samples.values.push_back(seconds * 1e6);
  }
  std::sort(times.samples.values.begin(), times.samples.values.end());
  times.median_s = times.samples.median() * 1e-6;
  times.p99_s = times.samples.percentile(0.99) * 1e-6;
  return times;
}

namespace {

// Repeats a product of the workers' size, 32 x 32 outputs of 256 elements; FLOP/s of one thread.
Result<double> repeat_small_product(DType dtype, const std::atomic<int>& waiting) {
  constexpr std::int64_t kOutputs = 32;
  constexpr std::int64_t kDepth = 256;
  TANDEM_ASSIGN(const auto product, make_product(dtype));
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  std::vector<std::byte> x(static_cast<std::size_t>(kOutputs * kDepth * element));
  random_fill(1, 0, static_cast<std::size_t>(kOutputs * kDepth), 0, 1, dtype, x.data());
  AlignedBytes packed;
  packed.get(product->packed_bytes(kOutputs, kDepth));
  const WeightsView w{x.data(), kDepth, kOutputs, kDepth};
  for (std::int64_t row = 0; row < kOutputs; row += Product::kPackRows) {
    product->pack(w, row, packed.get(0));
  }
  std::vector<float> y(static_cast<std::size_t>(kOutputs * kOutputs));
  ProductArgs args;
  args.rows = args.n = args.y_stride = kOutputs;
  args.k = args.x_stride = kDepth;
  args.x = x.data();
  args.x_dtype = dtype;
  args.packed = packed.get(0);
  args.y = y.data();
  while (waiting.load(std::memory_order_acquire) > 0) relax();  // all threads start at once
  constexpr double kSeconds = 0.05;
  const TimePoint begin = steady_clock::now();
  double calls = 0;
  for (; seconds_between(begin, steady_clock::now()) < kSeconds; ++calls) {
    TANDEM_TRY(product->run(args));
  }
  return 2.0 * kOutputs * kOutputs * kDepth * calls / seconds_between(begin, steady_clock::now());
}

}  // namespace

Result<double> measure_product_peak(DType dtype, const std::vector<int>& cpus) {
  constexpr std::int64_t kSize = 2048;
  TANDEM_ASSIGN(const auto peak,
                OnednnPeak::create(dtype, kSize, kSize, kSize, static_cast<int>(cpus.size())));
  double best = 0;
  for (int i = 0; i < 8; ++i) {
    TANDEM_ASSIGN(const double flops, peak->call());
    best = std::max(best, flops);
  }
  std::atomic<int> waiting{static_cast<int>(cpus.size())};
  std::vector<double> speeds(cpus.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    threads.emplace_back([&, i] {
      const RunsOn its_cpu(cpus[i]);
      use_one_thread();
      waiting.fetch_sub(1, std::memory_order_acq_rel);
      if (const auto speed = repeat_small_product(dtype, waiting)) speeds[i] = *speed;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return std::max(best, std::accumulate(speeds.begin(), speeds.end(), 0.0));
}

Status measure_workers_bar(const std::vector<int>& cpus, DType dtype, BenchReport& report,
                           int rounds) {
  WorkerBenchOptions options;
  options.dtype = dtype;
  options.cpus = cpus;
  if (cpus.empty()) return invalid("no core for a worker");
  // Uses the last twelve, because the first core handles interrupts. The one before them rings the
  // doorbell.
  if (cpus.size() > 12) {
    options.cpus.assign(cpus.end() - 12, cpus.end());
    options.doorbell_cpu = cpus[cpus.size() - 13];
  }
  const auto count = static_cast<int>(options.cpus.size());
  TANDEM_ASSIGN(const auto memory,
                MemorySpeed::create(std::size_t{512} << 20, count, options.cpus));
  double bytes_per_s = 0;
  for (int pass = 0; pass < 5; ++pass) bytes_per_s = std::max(bytes_per_s, memory->read_pass());
  TANDEM_ASSIGN(const double peak, measure_product_peak(dtype, options.cpus));
  report.fact("workers", fmt::format("{} cores, memory read {:.1f} GB/s, products {:.2f} TFLOP/s",
                                     count, bytes_per_s / 1e9, peak / 1e12));
  TANDEM_ASSIGN(const auto bench, WorkerBench::create(options));
  for (const std::uint32_t rows : {16U, 64U, 128U}) {
    WorkerCase it{.rows = rows, .rank = 64, .workers = static_cast<std::uint32_t>(count)};
    TANDEM_ASSIGN(const WorkerTimes cold, bench->time(it, rounds));
    const double floor =
        std::max(static_cast<double>(cold.weight_bytes) / bytes_per_s, cold.flops / peak);
    report.add(cold.samples);
    it.cold = false;
    TANDEM_ASSIGN(const WorkerTimes ahead, bench->time(it, rounds));
    report.add(ahead.samples);
    it.cold = true;
    it.xa = true;
    TANDEM_ASSIGN(const WorkerTimes xa, bench->time(it, rounds));
    report.add(xa.samples);
    report.add(Bar{"C7",
                   fmt::format("delta of q, k, v of {} tokens, {} workers, over {:.1f} us", rows,
                               count, floor * 1e6),
                   cold.median_s / floor, "", Must::be_at_most, 2.0});
  }
  return {};
}

}  // namespace tandem
