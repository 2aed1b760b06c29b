#include "tools/bench/engine/bench_all_reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log/log.h"
#include "engine/loader/random_fill.h"
#include "engine/loader/thread_team.h"
#include "gpu/cuda/nccl_speed.h"
#include "gpu/device.h"
#include "tools/setup/engine_setup.h"
#include "tools/setup/gpus.h"

namespace tandem {
namespace {

constexpr std::int64_t kWidth = 8192;
constexpr std::int64_t kReducedRows[] = {1, 4, 32, 128, 2048};  // the last ones are a prompt's
constexpr std::size_t kRowsOfHosts = 4;  // the first so many of them; more would take seconds
constexpr int kCalls = 50;               // per recorded graph
constexpr int kCallsOfHosts = 5;         // host devices are a thousand times slower
constexpr float kEps = 1e-5F;
constexpr double kSumTolerance = 1e-5;

std::span<const std::int64_t> rows_of(bool gpus) {
  return std::span(kReducedRows).first(gpus ? std::size(kReducedRows) : kRowsOfHosts);
}

// Published figures count two bytes per element of a row, whatever the ranks exchange.
double peers_kib(std::int64_t rows) {
  return static_cast<double>(rows * kWidth) * 2 / 1024;
}

// One rank's operands.
struct ReducingRank {
  std::unique_ptr<Communicator> communicator;
  Buffer part_memory, residual_memory, weight_memory, out_memory;
  AllReduceArgs args;  // for all rows
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Graph> graph;
  std::unique_ptr<Event> begins, ends;
};

class AllReduceBench {
 public:
  // `calls`: operations per recorded graph.
  Status prepare(std::span<Device* const> devices, std::int64_t most_rows, DType dtype, int calls) {
    most_rows_ = most_rows;
    calls_ = calls;
    TANDEM_ASSIGN(auto ends, devices.front()->connect(devices));
    team_ = std::make_unique<ThreadTeam>(static_cast<int>(devices.size()) - 1, "rank");
    ranks_.resize(devices.size());
    for (std::size_t r = 0; r < devices.size(); ++r) {
      ranks_[r].communicator = std::move(ends[r]);
      TANDEM_TRY(prepare_rank(*devices[r], dtype, r));
    }
    return {};
  }

  // Compares the sums of every rank with the host's sums in double. The parts are read before the
  // operation, because it may overwrite them.
  Status check() {
    std::vector<double> wanted(static_cast<std::size_t>(most_rows_ * kWidth));
    std::vector<float> read(wanted.size());
    const auto bytes = read.size() * sizeof(float);
    for (ReducingRank& rank : ranks_) {
      rank.stream->copy_to_host(read.data(), rank.args.part.data, bytes);
      TANDEM_TRY(rank.stream->synchronize());
      for (std::size_t i = 0; i < read.size(); ++i) wanted[i] += static_cast<double>(read[i]);
    }
    TANDEM_TRY(on_all([](ReducingRank& rank) {
      AllReduceArgs args = rank.args;
      args.accumulate = false;
      rank.stream->all_reduce(args);
      return Status();
    }));
    std::vector<float> first;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].stream->copy_to_host(read.data(), ranks_[r].args.residual.data, bytes);
      TANDEM_TRY(ranks_[r].stream->synchronize());
      for (std::size_t i = 0; i < read.size(); ++i) {
        const double apart = std::abs(static_cast<double>(read[i]) - wanted[i]);
        if (apart <= kSumTolerance) continue;
        return error(StatusCode::internal,
                     "all_reduce on rank {}: element {} is {}, not {}: nothing was timed", r, i,
                     read[i], wanted[i]);
      }
      if (r == 0) {
        first = read;
      } else if (std::memcmp(first.data(), read.data(), bytes) != 0) {
        return error(StatusCode::internal,
                     "all_reduce: the sums of rank {} are not those of rank 0 to the bit: nothing "
                     "was timed",
                     r);
      }
    }
    return {};
  }

  // Microseconds of one operation on `rows` rows. A sample is the mean over a recorded graph, by
  // the clock of the rank that began last, because the other ranks waited for it.
  Result<Samples> time(std::int64_t rows, int rounds, std::string_view way) {
    TANDEM_TRY(on_all([this, rows](ReducingRank& rank) -> Status {
      AllReduceArgs args = rank.args;
      for (TensorView* view : {&args.part, &args.residual, &args.out}) {
        *view = view->slice_rows(0, rows);
      }
      TANDEM_TRY(rank.stream->begin_recording());
      for (int call = 0; call < calls_; ++call) rank.stream->all_reduce(args);
      TANDEM_ASSIGN(rank.graph, rank.stream->end_recording());
      return {};
    }));
    Samples samples{
        fmt::format("all-reduce, residual, RMSNorm{}: {} x {}", way, rows, kWidth), "us", {}};
    for (int round = -2; round < rounds; ++round) {
      TANDEM_TRY(on_all([](ReducingRank& rank) {
        rank.stream->record(*rank.begins);
        rank.stream->launch(*rank.graph);
        rank.stream->record(*rank.ends);
        return Status();
      }));
      double least = HUGE_VAL;
      for (const ReducingRank& rank : ranks_) {
        least = std::min(least, rank.ends->seconds_since(*rank.begins));
      }
      if (round >= 0) samples.values.push_back(least * 1e6 / calls_);
    }
    return samples;
  }

 private:
  Status prepare_rank(Device& device, DType dtype, std::size_t r) {
    ReducingRank& rank = ranks_[r];
    const auto elements = static_cast<std::size_t>(most_rows_ * kWidth);
    TANDEM_ASSIGN(rank.stream, device.create_stream("all-reduce"));
    rank.begins = device.create_timed_event();
    rank.ends = device.create_timed_event();
    TANDEM_ASSIGN(rank.part_memory,
                  rank.communicator->allocate(elements * sizeof(float), "parts of sums"));
    TANDEM_ASSIGN(rank.residual_memory, device.allocate(elements * sizeof(float), "residual"));
    TANDEM_ASSIGN(rank.weight_memory, device.allocate(kWidth * size_of(dtype), "norm"));
    TANDEM_ASSIGN(rank.out_memory, device.allocate(elements * size_of(dtype), "normed rows"));
    TANDEM_ASSIGN(const Buffer host,
                  device.allocate_pinned(elements * sizeof(float), "random parts"));
    random_fill(r + 1, 0, elements, 0, 1, DType::f32, host.data());
    rank.stream->copy_to_device(rank.part_memory.data(), host.data(), elements * sizeof(float));
    TANDEM_TRY(rank.stream->synchronize());
    random_fill(9, 0, kWidth, 1, 0.1, dtype, host.data());
    rank.stream->copy_to_device(rank.weight_memory.data(), host.data(), kWidth * size_of(dtype));
    TANDEM_TRY(rank.stream->synchronize());
    rank.args.communicator = rank.communicator.get();
    rank.args.part = {rank.part_memory.data(), DType::f32, {most_rows_, kWidth}};
    rank.args.residual = {rank.residual_memory.data(), DType::f32, {most_rows_, kWidth}};
    rank.args.weight = {rank.weight_memory.data(), dtype, {kWidth}};
    rank.args.eps = kEps;
    rank.args.out = {rank.out_memory.data(), dtype, {most_rows_, kWidth}};
    return {};
  }

  // Runs enqueue(rank) on one thread per rank and waits for all streams. If a rank fails, its
  // communicator ends the operations of the others.
  template <typename Enqueue>
  Status on_all(const Enqueue& enqueue) {
    std::vector<Status> ended(ranks_.size());
    team_->run(ranks_.size(), [&](std::size_t r, std::size_t) {
      ended[r] = enqueue(ranks_[r]);
      if (!ended[r].ok()) ranks_[r].communicator->leave("what it was to enqueue");
    });
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      Status ran = ranks_[r].stream->synchronize();
      if (ended[r].ok()) ended[r] = std::move(ran);
    }
    for (Status& status : ended) TANDEM_TRY(std::move(status));
    return {};
  }

  std::int64_t most_rows_ = 0;
  int calls_ = 0;
  std::vector<ReducingRank> ranks_;
  std::unique_ptr<ThreadTeam> team_;
};

// NCCL's sum alone, of bf16 rows: less than half of the bytes and no residual or RMSNorm. It is a
// reference for the whole operation.
void add_nccl(std::span<const int> gpus, int rounds, BenchReport& report) {
  std::vector<std::int64_t> counts;
  for (const std::int64_t rows : kReducedRows) counts.push_back(rows * kWidth);
  const Result<std::vector<double>> seconds = measure_nccl_all_reduce(gpus, counts, kCalls, rounds);
  if (!seconds) {
    report.fact("NCCL beside it", seconds.status().message());
    return;
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    report.add(Samples{fmt::format("NCCL, the sum alone, bf16: {} x {}", kReducedRows[i], kWidth),
                       "us",
                       {(*seconds)[i] * 1e6}});
  }
}

// The median in microseconds for each number of rows.
Result<std::vector<double>> time_way(EngineSettings settings, std::string_view collectives,
                                     bool on_gpus, DType dtype, int rounds, std::string_view way,
                                     BenchReport& report) {
  settings.collectives = collectives;
  TANDEM_ASSIGN(const auto made, make_devices(settings));
  std::vector<Device*> devices;
  devices.reserve(made.size());
  for (const auto& device : made) devices.push_back(device.get());
  log::info("all-reduce of {} devices{}", devices.size(), way);
  AllReduceBench bench;
  const std::span<const std::int64_t> all_rows = rows_of(on_gpus);
  TANDEM_TRY(bench.prepare(devices, all_rows.back(), dtype, on_gpus ? kCalls : kCallsOfHosts));
  TANDEM_TRY(bench.check());
  std::vector<double> medians;
  for (const std::int64_t rows : all_rows) {
    TANDEM_ASSIGN(const Samples samples, bench.time(rows, rounds, way));
    report.add(samples);
    medians.push_back(samples.median());
  }
  return medians;
}

// Adds the bars from the times of all numbers of rows.
void add_bars(std::span<const double> own, bool judged, BenchReport& report) {
  double small = 0;
  double large = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (peers_kib(kReducedRows[i]) <= 64) small = std::max(small, own[i]);
    if (peers_kib(kReducedRows[i]) == 512) large = own[i];
  }
  report.add({"T3", "all-reduce, residual, RMSNorm: up to 64 KB (4 x 8192)", small, "us",
              Must::be_at_most, 6, judged});
  report.add({"T3", "the same, 512 KB (32 x 8192)", large, "us", Must::be_at_most, 10, judged});
}

// Reports the size from which on NCCL is faster for the whole operation, which is the best value of
// GroupOptions::nccl_from_bytes.
void add_crossing(std::span<const double> own, std::span<const double> nccl, BenchReport& report) {
  std::size_t from = own.size();
  while (from > 0 && nccl[from - 1] < own[from - 1]) --from;
  report.fact("NCCL takes less, with residual and RMSNorm",
              from == own.size() ? std::string("at none of these sizes")
                                 : fmt::format("from {} x {} on, {} KiB of f32", kReducedRows[from],
                                               kWidth, kReducedRows[from] * kWidth * 4 / 1024));
}

}  // namespace

Status measure_all_reduce(const EngineSettings& settings, bool on_gpus, DType dtype, int rounds,
                          BenchReport& report) {
  if (!on_gpus) {
    TANDEM_ASSIGN(const auto took, time_way(settings, "auto", false, dtype, rounds, "", report));
    add_bars(took, false, report);
    return {};
  }
  const Result<std::vector<double>> own =
      time_way(settings, "own", true, dtype, rounds, "", report);
  if (!own && own.status().code() != StatusCode::unavailable) return own.status();
  const Result<std::vector<double>> nccl =
      time_way(settings, "nccl", true, dtype, rounds, " through NCCL", report);
  if (!nccl && nccl.status().code() != StatusCode::unavailable) return nccl.status();
  TANDEM_ASSIGN(const std::vector<int> gpus, chosen_gpus(settings));
  if (nccl) {
    add_nccl(gpus, rounds, report);
  } else {
    report.fact("through NCCL", nccl.status().message());
  }
  if (!own) {
    report.fact("our own kernels", own.status().message());
    return {};
  }
  if (nccl) add_crossing(*own, *nccl, report);
  add_bars(*own, true, report);
  return {};
}

}  // namespace tandem
