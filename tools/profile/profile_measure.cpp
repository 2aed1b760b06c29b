#include "tools/profile/profile_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "base/clock.h"
#include "engine/loader/random_fill.h"
#include "tools/bench/measure/bench_adapters.h"
#include "tools/bench/measure/bench_executor.h"
#include "tools/bench/measure/bench_handoff.h"
#include "tools/bench/measure/bench_peaks.h"

namespace tandem {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Seconds of `enqueue`, median: until the streams have run it. At least three rounds, at most
// `most_rounds`, and no more after `budget_s`.
template <typename Enqueue>
Result<double> time_on(std::span<Stream* const> streams, int most_rounds, double budget_s,
                       Enqueue&& enqueue) {
  const SteadyClock clock;
  std::vector<double> seconds;
  double spent = 0;
  for (int round = -1; round < most_rounds; ++round) {  // the first warms up
    if (round >= 3 && spent >= budget_s) break;
    const TimePoint start = clock.now();
    enqueue();
    for (Stream* stream : streams) TANDEM_TRY(stream->synchronize());
    if (round < 0) continue;
    seconds.push_back(seconds_between(start, clock.now()));
    spent += seconds.back();
  }
  return median_of(std::move(seconds));
}

template <typename Enqueue>
Result<double> time_on(Stream& stream, int most_rounds, double budget_s, Enqueue&& enqueue) {
  const std::array<Stream*, 1> alone = {&stream};
  return time_on(alone, most_rounds, budget_s, std::forward<Enqueue>(enqueue));
}

// Device memory with random values of `dtype`.
Result<Buffer> random_memory(Device& device, Stream& stream, DType dtype, std::size_t bytes,
                             std::string_view purpose) {
  const std::size_t block = std::min(bytes, 16 * kMiB);
  TANDEM_ASSIGN(const Buffer host, device.allocate_pinned(block, purpose));
  random_fill(1, 0, block / size_of(dtype), 0, 1, dtype, host.data());
  TANDEM_ASSIGN(Buffer memory, device.allocate(bytes, purpose));
  for (std::size_t at = 0; at < bytes; at += block) {
    stream.copy_to_device(memory.data() + at, host.data(), std::min(block, bytes - at));
  }
  TANDEM_TRY(stream.synchronize());
  return memory;
}

template <typename T>
Result<Buffer> upload(Device& device, Stream& stream, const std::vector<T>& values) {
  const std::size_t bytes = values.size() * sizeof(T);
  TANDEM_ASSIGN(Buffer memory, device.allocate(bytes, "arguments of an operation"));
  stream.copy_to_device(memory.data(), values.data(), bytes);
  TANDEM_TRY(stream.synchronize());
  return memory;
}

// How many bytes defeat the device's caches.
std::size_t past_caches(const Device& device) {
  return device.info().is_cuda ? 256 * kMiB : 64 * kMiB;
}

}  // namespace

namespace {

// A device's end of the link.
struct LinkEnd {
  static Result<LinkEnd> create(Device& device, std::size_t bytes) {
    LinkEnd end;
    TANDEM_ASSIGN(end.host, device.allocate_pinned(bytes, "copies"));
    random_fill(1, 0, bytes / 2, 0, 1, DType::bf16, end.host.data());
    TANDEM_ASSIGN(end.memory, device.allocate(bytes, "copies"));
    TANDEM_ASSIGN(end.flags, device.allocate(64, "ready words"));
    TANDEM_ASSIGN(end.stream, device.create_stream("adapter load"));
    return end;
  }
  void enqueue(std::size_t bytes, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
      stream->copy_to_device(memory.data() + i * bytes, host.data() + i * bytes, bytes);
      stream->set_flag(reinterpret_cast<std::uint32_t*>(flags.data()), 1, 2);
    }
  }

  Buffer host, memory, flags;
  std::unique_ptr<Stream> stream;  // gone before what it uses
};

}  // namespace

Status measure_link(const ProfileTarget& target, Profile& profile) {
  const std::size_t total = target.quick ? 32 * kMiB : 128 * kMiB;
  std::vector<LinkEnd> ends;
  std::vector<Stream*> streams;
  for (Device* device : target.devices) {
    TANDEM_ASSIGN(LinkEnd end, LinkEnd::create(*device, total));
    streams.push_back(end.stream.get());
    ends.push_back(std::move(end));
  }
  ProfileTable table{"link", {"bytes", "seconds"}, {}};
  for (const std::size_t kib : {16, 64, 256, 1024, 3072, 8192, 24576}) {
    const std::size_t bytes = kib * 1024;
    const std::size_t count = std::clamp<std::size_t>(total / bytes, 1, 64);
    TANDEM_ASSIGN(const double seconds, time_on(streams, 20, 0.3, [&] {
                    for (const LinkEnd& end : ends) end.enqueue(bytes, count);
                  }));
    table.rows.push_back({static_cast<double>(bytes), seconds / static_cast<double>(count)});
  }
  profile.tables.push_back(std::move(table));
  return {};
}

Status measure_steps(const ProfileTarget& target, Profile& profile, const LoadProgress& progress) {
  const auto positions = static_cast<std::int32_t>(
      std::min<std::int64_t>(target.config.max_position_embeddings, 1 << 20));
  ExecutorBenchOptions options;
  options.batch = target.quick ? 8 : 64;
  options.context = std::min(target.quick ? 32 : 512, positions - 1);
  options.prefill_tokens = std::min(target.quick ? 256 : 2048, positions - 1);
  options.steps_per_sample = target.quick ? 1 : 4;
  options.sets.push_back({"rank 8 qkv", 8, qkv_modules(), 1});
  TANDEM_ASSIGN(const auto bench, ExecutorBench::create(target.devices, target.config, target.dtype,
                                                        options, progress));
  const int rounds = target.quick ? 3 : 9;
  const auto median = [&](const std::function<Result<double>()>& step) -> Result<double> {
    std::vector<double> seconds;
    for (int round = -1; round < rounds; ++round) {  // the first warms up
      TANDEM_ASSIGN(const double took, step());
      if (round >= 0) seconds.push_back(took);
    }
    return median_of(std::move(seconds));
  };
  ProfileTable prefill{"prefill", {"tokens", "seconds"}, {}};
  for (const std::int32_t tokens :
       {1, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048}) {
    if (tokens > options.prefill_tokens) break;
    TANDEM_ASSIGN(const double seconds, median([&] { return bench->prefill(tokens); }));
    prefill.rows.push_back({static_cast<double>(tokens), seconds});
  }
  ProfileTable decode{"decode", {"batch", "context", "seconds"}, {}};
  for (const std::int32_t batch : {1, 2, 4, 8, 16, 32, 48, 64}) {
    if (batch > options.batch) break;
    TANDEM_ASSIGN(const double seconds,
                  median([&] { return bench->decode(batch, ExecutorBench::kNoAdapters); }));
    decode.rows.push_back(
        {static_cast<double>(batch), static_cast<double>(options.context), seconds});
  }
  profile.tables.push_back(std::move(prefill));
  profile.tables.push_back(std::move(decode));
  return {};
}

Status measure_gemm(const ProfileTarget& target, Profile& profile) {
  Device& device = *target.devices.front();
  const ModelConfig& c = target.shape;
  const std::array<std::array<std::int64_t, 2>, 4> shapes = {
      {{c.q_size() + 2 * c.kv_size(), c.hidden_size},
       {c.hidden_size, c.q_size()},
       {2 * c.ffn_size, c.hidden_size},
       {c.hidden_size, c.ffn_size}}};
  std::int64_t elements = 0;
  std::int64_t widest = 0;
  for (const auto& [out, in] : shapes) {
    elements += out * in;
    widest = std::max({widest, out, in});
  }
  const std::size_t element = size_of(target.dtype);
  const std::size_t layer_bytes = static_cast<std::size_t>(elements) * element;
  const std::size_t copies =
      std::clamp<std::size_t>(past_caches(device) / layer_bytes, 1, target.quick ? 4 : 16);
  TANDEM_ASSIGN(const auto stream, device.create_stream("products"));
  TANDEM_ASSIGN(const Buffer weights,
                random_memory(device, *stream, target.dtype, layer_bytes * copies, "weights"));
  constexpr std::int64_t kMostRows = 64;
  const std::size_t rows_bytes = static_cast<std::size_t>(kMostRows * widest) * element;
  TANDEM_ASSIGN(const Buffer x, random_memory(device, *stream, target.dtype, rows_bytes, "x"));
  TANDEM_ASSIGN(const Buffer y, device.allocate(rows_bytes, "y"));
  ProfileTable table{"gemm", {"rows", "seconds"}, {}};
  for (const std::int64_t rows : {1, 16, 64}) {
    TANDEM_ASSIGN(const double seconds, time_on(*stream, 15, 0.3, [&] {
                    std::byte* w = weights.data();
                    for (std::size_t copy = 0; copy < copies; ++copy) {
                      for (const auto& [out, in] : shapes) {
                        GemmArgs args;
                        args.x = {x.data(), target.dtype, {rows, in}};
                        args.w = {w, target.dtype, {out, in}};
                        args.y = {y.data(), target.dtype, {rows, out}};
                        stream->gemm(args);
                        w += static_cast<std::size_t>(out * in) * element;
                      }
                    }
                  }));
    table.rows.push_back({static_cast<double>(rows), seconds / static_cast<double>(copies)});
  }
  profile.tables.push_back(std::move(table));
  return {};
}

namespace {

// Adapters of some ranks on q, k and v of one layer, and a batch with one row of each.
class LoraCase {
 public:
  static constexpr std::int32_t kSlots = 64;
  static constexpr std::int32_t kMaxRank = 128;

  explicit LoraCase(const ProfileTarget& target)
      : target_(target),
        outs_{target.shape.q_size(), target.shape.kv_size(), target.shape.kv_size()} {}

  Status prepare() {
    Device& device = *target_.devices.front();
    const std::int64_t hidden = target_.config.hidden_size;
    const std::size_t element = size_of(target_.dtype);
    TANDEM_ASSIGN(stream_, device.create_stream("lora"));
    std::int64_t of_slot = 0;
    for (const std::int64_t out : outs_) of_slot += kMaxRank * (hidden + out);
    slot_bytes_ = (static_cast<std::size_t>(of_slot) * element + 3 * 128 + 63) / 64 * 64;
    TANDEM_ASSIGN(weights_,
                  random_memory(device, *stream_, target_.dtype, slot_bytes_ * kSlots, "adapters"));
    const std::int64_t width = outs_[0] + outs_[1] + outs_[2];
    TANDEM_ASSIGN(x_, random_memory(device, *stream_, target_.dtype,
                                    static_cast<std::size_t>(kSlots * hidden) * element, "x"));
    TANDEM_ASSIGN(out_, random_memory(device, *stream_, target_.dtype,
                                      static_cast<std::size_t>(kSlots * width) * element, "y"));
    std::vector<std::int32_t> rows(kSlots);
    std::iota(rows.begin(), rows.end(), 0);
    TANDEM_ASSIGN(rows_, upload(device, *stream_, rows));
    return {};
  }

  // Slot s has rank ranks[s % size]; `batch` rows of as many adapters, each time the next ones.
  Status time(std::int32_t batch, const std::vector<std::int32_t>& ranks, ProfileTable& table) {
    Device& device = *target_.devices.front();
    const std::int64_t hidden = target_.config.hidden_size;
    const std::size_t element = size_of(target_.dtype);
    std::vector<LoraMatrix> matrices;
    for (std::int32_t s = 0; s < kSlots; ++s) {
      const std::int32_t rank = ranks[static_cast<std::size_t>(s) % ranks.size()];
      auto at = reinterpret_cast<std::uint64_t>(weights_.data()) +
                static_cast<std::uint64_t>(s) * slot_bytes_;
      const auto take = [&](std::int64_t elements) {
        const std::uint64_t here = at;
        at += (static_cast<std::size_t>(elements) * element + 63) / 64 * 64;
        return here;
      };
      for (const std::int64_t out : outs_) {
        LoraMatrix& matrix = matrices.emplace_back();
        matrix.a = take(rank * hidden);
        matrix.b = take(out * rank);
        matrix.rank = matrix.b_stride = rank;
      }
    }
    // Several batches one after another, of adapters that no cache holds any more.
    std::vector<LoraSegment> segments;
    for (std::int32_t call = 0; call < kCalls; ++call) {
      for (std::int32_t i = 0; i < batch; ++i) {
        segments.push_back({(call * batch + i) % kSlots, i, 1});
      }
    }
    TANDEM_ASSIGN(const Buffer on_device, upload(device, *stream_, matrices));
    TANDEM_ASSIGN(const Buffer batches, upload(device, *stream_, segments));
    LoraArgs args;
    args.x = {x_.data(), target_.dtype, {batch, hidden}};
    args.table = reinterpret_cast<const LoraMatrix*>(on_device.data());
    args.slot_stride = 3;
    args.num_modules = 3;
    const TensorView out(out_.data(), target_.dtype, {batch, outs_[0] + outs_[1] + outs_[2]});
    std::int64_t column = 0;
    for (int m = 0; m < 3; ++m) {
      args.out[m] = out.slice_cols(column, outs_[static_cast<std::size_t>(m)]);
      column += outs_[static_cast<std::size_t>(m)];
    }
    args.rows = reinterpret_cast<const std::int32_t*>(rows_.data());
    args.num_rows = batch;
    args.num_segments = batch;
    args.max_rank = *std::max_element(ranks.begin(), ranks.end());
    args.max_count = 1;
    TANDEM_ASSIGN(const double seconds, time_on(*stream_, 15, 0.1, [&] {
                    for (std::int32_t call = 0; call < kCalls; ++call) {
                      args.segments =
                          reinterpret_cast<const LoraSegment*>(batches.data()) + call * batch;
                      stream_->lora(args);
                    }
                  }));
    double sum = 0;
    double largest = 0;
    for (std::int32_t i = 0; i < batch; ++i) {
      const double rank = ranks[static_cast<std::size_t>(i) % ranks.size()];
      sum += rank;
      largest = std::max(largest, rank);
    }
    table.rows.push_back({static_cast<double>(batch), largest, sum, seconds / kCalls});
    return {};
  }

 private:
  static constexpr std::int32_t kCalls = 16;

  const ProfileTarget& target_;
  std::array<std::int64_t, 3> outs_;
  std::size_t slot_bytes_ = 0;
  Buffer weights_, x_, out_, rows_;
  std::unique_ptr<Stream> stream_;  // gone before what it uses
};

}  // namespace

Status measure_lora(const ProfileTarget& target, Profile& profile) {
  LoraCase lora(target);
  TANDEM_TRY(lora.prepare());
  ProfileTable table{"lora", {"batch", "max_rank", "sum_ranks", "seconds"}, {}};
  const std::vector<std::vector<std::int32_t>> sets = {
      {8}, {16}, {32}, {64}, {128}, {8, 64}, {8, 16, 32, 64}, {16, 16, 16, 128}};
  for (const std::int32_t batch : {1, 4, 8, 16, 32, 64}) {
    if (target.quick && batch > 16) break;
    for (const std::vector<std::int32_t>& ranks : sets) {
      TANDEM_TRY(lora.time(batch, ranks, table));
    }
  }
  profile.tables.push_back(std::move(table));
  return {};
}

Status measure_trip(const ProfileTarget& target, Profile& profile) {
  const std::vector<std::int32_t> rows = {1, 4, 16, 64, 128, 256};
  const std::int64_t width = target.config.hidden_size;
  TANDEM_ASSIGN(const std::vector<double> seconds,
                time_round_trips(*target.devices.front(), width, rows, target.quick ? 40 : 200));
  ProfileTable table{"trip", {"rows", "bytes", "seconds"}, {}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    // bf16; the answer is three times as wide.
    const double bytes = static_cast<double>(rows[i] * width) * 2 * 4;
    table.rows.push_back({static_cast<double>(rows[i]), bytes, seconds[i]});
  }
  profile.tables.push_back(std::move(table));
  return {};
}

Status measure_memory(const ProfileTarget& target, Profile& profile) {
  const auto most = static_cast<int>(target.worker_cpus.size());
  if (most == 0) return {};
  std::vector<int> counts;
  for (int count = 1; count < most; count *= 2) counts.push_back(count);
  counts.push_back(most);
  ProfileTable table{"memory", {"cores", "bytes_per_s"}, {}};
  for (const int count : counts) {
    const std::vector<int> cpus(target.worker_cpus.begin(), target.worker_cpus.begin() + count);
    TANDEM_ASSIGN(const auto memory,
                  MemorySpeed::create(target.quick ? 128 * kMiB : 512 * kMiB, count, cpus));
    std::vector<double> speeds;
    speeds.reserve(5);
    for (int pass = 0; pass < 5; ++pass) speeds.push_back(memory->read_pass());
    table.rows.push_back({static_cast<double>(count), median_of(std::move(speeds))});
  }
  profile.tables.push_back(std::move(table));
  return {};
}

}  // namespace tandem
