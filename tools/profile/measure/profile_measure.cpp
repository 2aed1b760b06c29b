#include "tools/profile/measure/profile_measure.h"

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
#include "tools/profile/fit/rounds.h"

namespace tandem {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
// In each pass; the median of three ignores one disturbed round.
constexpr int kRounds = 3;

// Seconds from calling `enqueue` until the streams have finished its work.
template <typename Enqueue>
Result<double> time_on(std::span<Stream* const> streams, const Enqueue& enqueue) {
  const SteadyClock clock;
  const TimePoint start = clock.now();
  enqueue();
  for (Stream* stream : streams) TANDEM_TRY(stream->synchronize());
  return seconds_between(start, clock.now());
}

template <typename Enqueue>
Result<double> time_on(Stream& stream, const Enqueue& enqueue) {
  const std::array<Stream*, 1> alone = {&stream};
  return time_on(alone, enqueue);
}

// Device memory filled with random values of `dtype`.
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

// Bytes that exceed the device's caches.
std::size_t past_caches(const Device& device) {
  return device.info().is_cuda ? 256 * kMiB : 64 * kMiB;
}

// One device's end of the link.
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
  std::unique_ptr<Stream> stream;  // destroyed before the memory that it uses
};

class LinkStage : public ProfileStage {
 public:
  Status prepare(const ProfileTarget& target) {
    total_ = target.quick ? 32 * kMiB : 128 * kMiB;
    for (Device* device : target.devices) {
      TANDEM_ASSIGN(LinkEnd end, LinkEnd::create(*device, total_));
      streams_.push_back(end.stream.get());
      ends_.push_back(std::move(end));
    }
    return {};
  }

  Status measure(PassTables& tables) override {
    // The smallest copies show the fixed cost of a copy.
    constexpr std::array<std::size_t, 8> kKib = {4, 16, 64, 256, 1024, 3072, 8192, 24576};
    TANDEM_ASSIGN(const std::vector<double> seconds,
                  time_by_turns(clock_, kKib.size(), kRounds, 0.2, [&](std::size_t i) {
                    const std::size_t bytes = kKib[i] * 1024;
                    const std::size_t count = copies_of(bytes);
                    return time_on(streams_, [&] {
                      for (const LinkEnd& end : ends_) end.enqueue(bytes, count);
                    });
                  }));
    ProfileTable& table = tables.emplace_back(ProfileTable{"link", {"bytes", "seconds"}, {}});
    for (std::size_t i = 0; i < kKib.size(); ++i) {
      const std::size_t bytes = kKib[i] * 1024;
      table.rows.push_back(
          {static_cast<double>(bytes), seconds[i] / static_cast<double>(copies_of(bytes))});
    }
    return {};
  }

 private:
  // Small copies form a longer row, so that the stream's thread wakes only once for all of them.
  std::size_t copies_of(std::size_t bytes) const {
    const std::size_t most = std::max<std::size_t>(64, 2 * kMiB / bytes);
    return std::clamp<std::size_t>(total_ / bytes, 1, most);
  }

  const SteadyClock clock_{};
  std::size_t total_ = 0;
  std::vector<LinkEnd> ends_;
  std::vector<Stream*> streams_;
};

class StepsStage : public ProfileStage {
 public:
  Status prepare(const ProfileTarget& target, const LoadProgress& progress) {
    const auto positions = static_cast<std::int32_t>(
        std::min<std::int64_t>(target.spec.max_position_embeddings, 1 << 20));
    options_.batch = target.quick ? 8 : 64;
    options_.context = std::min(target.quick ? 32 : 512, positions - 1);
    options_.prefill_tokens = std::min(target.quick ? 256 : 2048, positions - 1);
    options_.steps_per_sample = target.quick ? 1 : 4;
    options_.sets.push_back({"rank 8 qkv", 8, qkv_modules(), 1});
    for (const std::int32_t tokens :
         {1, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048}) {
      if (tokens <= options_.prefill_tokens) tokens_.push_back(tokens);
    }
    for (const std::int32_t batch : {1, 2, 4, 8, 16, 32, 48, 64}) {
      if (batch <= options_.batch) batches_.push_back(batch);
    }
    TANDEM_ASSIGN(bench_, ExecutorBench::create(target.devices, target.spec, target.dtype, options_,
                                                progress));
    return {};
  }

  Status measure(PassTables& tables) override {
    const std::size_t count = tokens_.size() + batches_.size();
    TANDEM_ASSIGN(const std::vector<double> seconds,
                  time_by_turns(clock_, count, kRounds, 0.5, [&](std::size_t i) {
                    if (i < tokens_.size()) return bench_->prefill(tokens_[i]);
                    return bench_->decode(batches_[i - tokens_.size()], ExecutorBench::kNoAdapters);
                  }));
    ProfileTable prefill{"prefill", {"tokens", "seconds"}, {}};
    ProfileTable decode{"decode", {"batch", "context", "seconds"}, {}};
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      prefill.rows.push_back({static_cast<double>(tokens_[i]), seconds[i]});
    }
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      decode.rows.push_back({static_cast<double>(batches_[i]),
                             static_cast<double>(options_.context), seconds[tokens_.size() + i]});
    }
    tables.push_back(std::move(prefill));
    tables.push_back(std::move(decode));
    return {};
  }

 private:
  const SteadyClock clock_{};
  ExecutorBenchOptions options_;
  std::vector<std::int32_t> tokens_, batches_;
  std::unique_ptr<ExecutorBench> bench_;
};

class GemmStage : public ProfileStage {
 public:
  Status prepare(const ProfileTarget& target) {
    Device& device = *target.devices.front();
    const ModelSpec& c = target.shape;
    dtype_ = target.dtype;
    shapes_ = {{{c.q_size() + 2 * c.kv_size(), c.hidden_size},
                {c.hidden_size, c.q_size()},
                {2 * c.mlp().size, c.hidden_size},
                {c.hidden_size, c.mlp().size}}};
    std::int64_t elements = 0;
    std::int64_t widest = 0;
    for (const auto& [out, in] : shapes_) {
      elements += out * in;
      widest = std::max({widest, out, in});
    }
    const std::size_t element = size_of(target.dtype);
    const std::size_t layer_bytes = static_cast<std::size_t>(elements) * element;
    copies_ = std::clamp<std::size_t>(past_caches(device) / layer_bytes, 1, target.quick ? 4 : 16);
    TANDEM_ASSIGN(stream_, device.create_stream("products"));
    TANDEM_ASSIGN(weights_,
                  random_memory(device, *stream_, target.dtype, layer_bytes * copies_, "weights"));
    const std::size_t rows_bytes = static_cast<std::size_t>(kRows.back() * widest) * element;
    TANDEM_ASSIGN(x_, random_memory(device, *stream_, target.dtype, rows_bytes, "x"));
    TANDEM_ASSIGN(y_, device.allocate(rows_bytes, "y"));
    return {};
  }

  Status measure(PassTables& tables) override {
    TANDEM_ASSIGN(const std::vector<double> seconds,
                  time_by_turns(clock_, kRows.size(), kRounds, 0.2, [&](std::size_t i) {
                    return time_on(*stream_, [&] { enqueue(kRows[i]); });
                  }));
    ProfileTable& table = tables.emplace_back(ProfileTable{"gemm", {"rows", "seconds"}, {}});
    for (std::size_t i = 0; i < kRows.size(); ++i) {
      table.rows.push_back(
          {static_cast<double>(kRows[i]), seconds[i] / static_cast<double>(copies_)});
    }
    return {};
  }

 private:
  static constexpr std::array<std::int64_t, 3> kRows = {1, 16, 64};

  void enqueue(std::int64_t rows) {
    std::byte* w = weights_.data();
    for (std::size_t copy = 0; copy < copies_; ++copy) {
      for (const auto& [out, in] : shapes_) {
        GemmArgs args;
        args.x = {x_.data(), dtype_, {rows, in}};
        args.w = TensorView(w, dtype_, {out, in});
        args.y = {y_.data(), dtype_, {rows, out}};
        stream_->gemm(args);
        w += static_cast<std::size_t>(out * in) * size_of(dtype_);
      }
    }
  }

  const SteadyClock clock_{};
  DType dtype_ = DType::bf16;
  std::array<std::array<std::int64_t, 2>, 4> shapes_{};
  std::size_t copies_ = 1;
  Buffer weights_, x_, y_;
  std::unique_ptr<Stream> stream_;  // destroyed before the memory that it uses
};

// Adapters of several ranks on q, k and v of one layer, and a batch with one row for each.
class LoraStage : public ProfileStage {
 public:
  static constexpr std::int32_t kSlots = 64;
  static constexpr std::int32_t kMaxRank = 128;

  explicit LoraStage(const ProfileTarget& target)
      : target_(target),
        outs_{target.shape.q_size(), target.shape.kv_size(), target.shape.kv_size()} {}

  Status prepare() {
    Device& device = *target_.devices.front();
    const std::int64_t hidden = target_.spec.hidden_size;
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

  Status measure(PassTables& tables) override {
    const std::vector<std::vector<std::int32_t>> sets = {
        {8}, {16}, {32}, {64}, {128}, {8, 64}, {8, 16, 32, 64}, {16, 16, 16, 128}};
    std::vector<std::pair<std::int32_t, const std::vector<std::int32_t>*>> cases;
    for (const std::int32_t batch : {1, 4, 8, 16, 32, 64}) {
      if (target_.quick && batch > 16) break;
      for (const std::vector<std::int32_t>& ranks : sets) cases.emplace_back(batch, &ranks);
    }
    TANDEM_ASSIGN(const std::vector<double> seconds,
                  time_by_turns(clock_, cases.size(), 1, 0, [&](std::size_t i) {
                    return time(cases[i].first, *cases[i].second);
                  }));
    ProfileTable& table = tables.emplace_back(
        ProfileTable{"lora", {"batch", "max_rank", "sum_ranks", "seconds"}, {}});
    for (std::size_t c = 0; c < cases.size(); ++c) {
      const auto& [batch, ranks] = cases[c];
      double sum = 0;
      double largest = 0;
      for (std::int32_t i = 0; i < batch; ++i) {
        const double rank = (*ranks)[static_cast<std::size_t>(i) % ranks->size()];
        sum += rank;
        largest = std::max(largest, rank);
      }
      table.rows.push_back({static_cast<double>(batch), largest, sum, seconds[c]});
    }
    return {};
  }

 private:
  // Slot s has rank ranks[s % size]; each call uses `batch` rows with the next adapters.
  Result<double> time(std::int32_t batch, const std::vector<std::int32_t>& ranks) {
    Device& device = *target_.devices.front();
    const std::int64_t hidden = target_.spec.hidden_size;
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
    // Several consecutive batches of adapters that are in no cache.
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
    TANDEM_ASSIGN(const double seconds, time_on(*stream_, [&] {
                    for (std::int32_t call = 0; call < kCalls; ++call) {
                      args.segments =
                          reinterpret_cast<const LoraSegment*>(batches.data()) + call * batch;
                      stream_->lora(args);
                    }
                  }));
    return seconds / kCalls;
  }

  static constexpr std::int32_t kCalls = 16;

  const ProfileTarget& target_;
  const SteadyClock clock_{};
  std::array<std::int64_t, 3> outs_;
  std::size_t slot_bytes_ = 0;
  Buffer weights_, x_, out_, rows_;
  std::unique_ptr<Stream> stream_;  // destroyed before the memory that it uses
};

class TripStage : public ProfileStage {
 public:
  explicit TripStage(const ProfileTarget& target) : target_(target) {}

  Status prepare() {
    TANDEM_ASSIGN(trips_, RoundTrips::create(*target_.devices.front(), target_.spec.hidden_size,
                                             kRows.back(), echo_cpu()));
    return {};
  }

  Status measure(PassTables& tables) override {
    const int trips = target_.quick ? 40 : 100;
    TANDEM_ASSIGN(const std::vector<double> seconds,
                  time_by_turns(clock_, kRows.size(), 2 * kRounds, 0.2,
                                [&](std::size_t i) { return trips_->time(kRows[i], trips); }));
    ProfileTable& table =
        tables.emplace_back(ProfileTable{"trip", {"rows", "bytes", "seconds"}, {}});
    for (std::size_t i = 0; i < kRows.size(); ++i) {
      // bf16; the answer is three times as wide as the input.
      const double bytes = static_cast<double>(kRows[i] * target_.spec.hidden_size) * 2 * 4;
      table.rows.push_back({static_cast<double>(kRows[i]), bytes, seconds[i]});
    }
    return {};
  }

 private:
  static constexpr std::array<std::int32_t, 6> kRows = {1, 4, 16, 64, 128, 256};

  // A worker's cpu; without workers one that the engine does not use.
  int echo_cpu() const {
    if (!target_.worker_cpus.empty()) return target_.worker_cpus.front();
    for (const int cpu : target_.usable_cpus) {
      if (std::ranges::count(target_.engine_cpus, cpu) == 0) return cpu;
    }
    return -1;
  }

  const ProfileTarget& target_;
  const SteadyClock clock_{};
  std::unique_ptr<RoundTrips> trips_;
};

class MemoryStage : public ProfileStage {
 public:
  Status prepare(const ProfileTarget& target) {
    const auto most = static_cast<int>(target.worker_cpus.size());
    for (int count = 1; count < most; count *= 2) counts_.push_back(count);
    counts_.push_back(most);
    TANDEM_ASSIGN(memory_, MemorySpeed::create(weight_bytes(target), most, target.worker_cpus));
    return {};
  }

  Status measure(PassTables& tables) override {
    // The median of a speed is computed from the seconds: it is the inverse of their median.
    TANDEM_ASSIGN(
        const std::vector<double> speeds,
        time_by_turns(clock_, counts_.size(), kRounds, 0.2, [&](std::size_t i) -> Result<double> {
          return memory_->read_pass(counts_[i]);
        }));
    ProfileTable& table = tables.emplace_back(ProfileTable{"memory", {"cores", "bytes_per_s"}, {}});
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      table.rows.push_back({static_cast<double>(counts_[i]), speeds[i]});
    }
    return {};
  }

 private:
  const SteadyClock clock_{};
  std::vector<int> counts_;
  std::unique_ptr<MemorySpeed> memory_;
};

template <typename Stage, typename... Prepared>
MadeStage prepared(std::unique_ptr<Stage> stage, const Prepared&... with) {
  TANDEM_TRY(stage->prepare(with...));
  return std::unique_ptr<ProfileStage>(std::move(stage));
}

}  // namespace

MadeStage make_link_stage(const ProfileTarget& target) {
  return prepared(std::make_unique<LinkStage>(), target);
}
MadeStage make_gemm_stage(const ProfileTarget& target) {
  return prepared(std::make_unique<GemmStage>(), target);
}
MadeStage make_lora_stage(const ProfileTarget& target) {
  return prepared(std::make_unique<LoraStage>(target));
}
MadeStage make_steps_stage(const ProfileTarget& target, const LoadProgress& progress) {
  return prepared(std::make_unique<StepsStage>(), target, progress);
}
MadeStage make_trip_stage(const ProfileTarget& target) {
  return prepared(std::make_unique<TripStage>(target));
}
MadeStage make_memory_stage(const ProfileTarget& target) {
  return prepared(std::make_unique<MemoryStage>(), target);
}

std::size_t weight_bytes(const ProfileTarget& target) {
  return target.quick ? 48 * kMiB : 320 * kMiB;
}

}  // namespace tandem
