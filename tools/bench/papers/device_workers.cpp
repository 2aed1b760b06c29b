// CPU workers: CaraServe's figures 16 to 18.
#include <fmt/format.h>

#include <algorithm>

#include "base/threads/thread_cpus.h"
#include "tools/bench/measure/bench_handoff.h"
#include "tools/bench/measure/bench_ipc.h"
#include "tools/bench/measure/bench_peaks.h"
#include "tools/bench/measure/bench_worker.h"
#include "tools/bench/papers/on_device.h"

namespace tandem::papers {
namespace {

constexpr std::int32_t kWorkerRank = 64;

// Seconds of a copy of `rows` rows to the host, a wait of the host's thread for it, and a copy of
// the answer back, as without an operation that copies and signals.
Result<double> with_waits(const PapersBench& bench, Device& device, std::int64_t width,
                          std::int32_t rows, int rounds) {
  const auto bytes = static_cast<std::size_t>(rows * width) * 2;
  TANDEM_ASSIGN(const auto stream, device.create_stream("native"));
  TANDEM_ASSIGN(const Buffer here, device.allocate(4 * bytes, "rows"));
  TANDEM_ASSIGN(const Buffer host, device.allocate_pinned(4 * bytes, "rows"));
  std::vector<double> seconds;
  for (int round = -2; round < rounds; ++round) {
    const TimePoint start = bench.clock.now();
    stream->copy_to_host(host.data(), here.data(), bytes);
    TANDEM_TRY(stream->synchronize());
    stream->copy_to_device(here.data() + bytes, host.data() + bytes, 3 * bytes);
    TANDEM_TRY(stream->synchronize());
    if (round >= 0) seconds.push_back(seconds_between(start, bench.clock.now()));
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

}  // namespace

Result<Findings> device_sync_free(const PapersBench& bench) {
  Findings found;
  found.verdict = Verdict::measured;
  TANDEM_ASSIGN(const PapersModel model, papers_model(bench));
  TANDEM_ASSIGN(const auto device, model.make_device());
  const std::int64_t width = model.spec.hidden_size;
  constexpr std::int32_t kMost = 256;
  TANDEM_ASSIGN(const auto trips, RoundTrips::create(*device, width, kMost, -1));
  const int rounds = bench.quick ? 10 : 100;
  for (const std::int32_t rows : {16, 64, 128, kMost}) {
    TANDEM_ASSIGN(const double fused, trips->time(rows, rounds));
    TANDEM_ASSIGN(const double native, with_waits(bench, *device, width, rows, rounds));
    found.add("copy, signal and wait in the stream", rows, fused * 1e6);
    found.add("the host waits for copies", rows, native * 1e6);
  }
  found.here = fmt::format(
      "a layer's round trip, 16 / 256 rows: {:.0f} / {:.0f} us in the stream, {:.0f} / {:.0f} us "
      "with "
      "waits of the host; {}",
      found.at("copy, signal and wait in the stream", 16),
      found.at("copy, signal and wait in the stream", kMost),
      found.at("the host waits for copies", 16), found.at("the host waits for copies", kMost),
      device->info().name);
  if (!device->info().is_cuda) {
    found.why = "the host device launches nothing, so a wait stalls nothing: this needs a GPU";
  }
  return found;
}

Result<Findings> device_ipc(const PapersBench& bench) {
  Findings found;
  const std::int64_t width = bench.quick ? 256 : 4096;
  std::uint64_t copied[2] = {};
  std::uint64_t calls[2] = {};
  std::int32_t most = 0;
  for (const std::int32_t receivers : {1, 2, 4, 8}) {
    for (const Ipc ipc : {Ipc::socket, Ipc::shared_memory}) {
      IpcOptions options;
      options.receivers = most = receivers;
      options.sent_bytes = static_cast<std::size_t>(16 * width * 2);
      options.answered_bytes = 3 * options.sent_bytes;
      options.rounds = bench.quick ? 10 : 200;
      TANDEM_ASSIGN(const IpcResult result, measure_ipc(ipc, options));
      const bool socket = ipc == Ipc::socket;
      found.add(socket ? "socket" : "shared memory", receivers, result.median_s * 1e3);
      copied[socket ? 0 : 1] = result.copied_bytes;
      calls[socket ? 0 : 1] = result.calls;
    }
  }
  found.here = fmt::format(
      "8 receivers: sockets {:.2f} ms, shared memory {:.2f} ms; bytes through the kernel {} and "
      "{}, "
      "calls {} and {}",
      found.at("socket", most), found.at("shared memory", most), copied[0], copied[1], calls[0],
      calls[1]);
  found.judge(copied[1] == 0 && copied[0] > 0, "shared memory copies, too");
  if (found.at("shared memory", most) >= found.at("socket", most)) {
    found.why =
        "the time says otherwise here: a thread that waits for a flag yields its core before it "
        "sleeps, which is slow beside other programs";
  }
  return found;
}

Result<Findings> device_cpu_lora(const PapersBench& bench) {
  Findings found;
  found.verdict = Verdict::measured;
  WorkerBenchOptions options;
  options.cpus = cpus_of_thread();
  if (options.cpus.empty()) return invalid("no core for a worker");
  const std::uint32_t width = bench.quick ? 256 : 4096;
  options.in = width;
  options.outs = {width, width, width};
  options.arena_bytes = bench.quick ? std::size_t{16} << 20 : std::size_t{256} << 20;
  const int rounds = bench.quick ? 3 : 20;
  const auto cores = static_cast<std::uint32_t>(std::min<std::size_t>(options.cpus.size(), 8));
  options.cpus.resize(cores);
  TANDEM_ASSIGN(const auto workers, WorkerBench::create(options));
  for (const std::uint32_t rows : {8U, 16U, 32U, 64U, 128U}) {
    TANDEM_ASSIGN(const WorkerTimes one,
                  workers->time({.rows = rows, .rank = kWorkerRank, .workers = 1}, rounds));
    found.add("one core, by tokens", rows, one.median_s * 1e3);
  }
  for (std::uint32_t count = 1; count <= cores; count *= 2) {
    TANDEM_ASSIGN(const WorkerTimes ours,
                  workers->time({.rows = 128, .rank = kWorkerRank, .workers = count}, rounds));
    found.add("128 tokens, by cores", count, ours.median_s * 1e3);
    double native_s = 0;
    for (const auto& [n, k] :
         {std::pair<std::int64_t, std::int64_t>{kWorkerRank, width}, {width, kWorkerRank}}) {
      TANDEM_ASSIGN(const auto product,
                    OnednnPeak::create(options.dtype, 128, n, k, static_cast<int>(count)));
      double flops = 0;
      for (int i = 0; i < rounds; ++i) {
        TANDEM_ASSIGN(const double one, product->call());
        flops = std::max(flops, one);
      }
      native_s += 3 * 2.0 * 128 * static_cast<double>(n * k) / flops;
    }
    found.add("oneDNN's threads, 128 tokens, by cores", count, native_s * 1e3);
  }
  found.here = fmt::format(
      "q, k, v of one layer, rank 64: {:.2f} ms for 8 tokens, {:.2f} for 128 on one core, {:.2f} "
      "on "
      "{}; oneDNN's threads, weights packed, at best {:.2f}",
      found.at("one core, by tokens", 8), found.at("one core, by tokens", 128),
      found.series[1].points.back().second, found.series[1].points.back().first,
      found.series[2].points.back().second);
  return found;
}

}  // namespace tandem::papers
