#include "tools/bench/measure/bench_lora_ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "engine/loader/random_fill.h"

namespace tandem {
namespace {

constexpr int kPerReplay = 8;       // operations of one recording
constexpr float kTolerance = 0.1F;  // of bf16 results near 1, summed in another order
constexpr float kScale = 0.05F;     // of weights: keeps results near 1

}  // namespace

std::string_view to_string(LoraWay way) {
  switch (way) {
    case LoraWay::segments:
      return "segments";
    case LoraWay::loop:
      return "loop";
    case LoraWay::gather:
      break;
  }
  return "gather-bmm";
}

struct LoraWaysBench::Impl {
  Impl(Device& on, const LoraWaysOptions& chosen) : device(on), options(chosen) {}

  Device& device;
  LoraWaysOptions options;
  std::unique_ptr<Stream> stream;
  // A of all adapters, then B; copies for gather; rows; results.
  Buffer a, b, copied_a, copied_b, x, y, weight;
  Buffer rows, segments, table, copied_table, owners;
  Buffer staging;
  const SteadyClock clock{};

  std::size_t element() const { return size_of(options.dtype); }
  auto most() const { return static_cast<std::size_t>(options.max_rows); }
  std::size_t matrix_bytes() const {
    return static_cast<std::size_t>(options.rank) * static_cast<std::size_t>(options.width) *
           element();
  }

  Status fill(Buffer& buffer, std::uint64_t key, float half_width) {
    const std::size_t count = buffer.bytes() / element();
    random_fill(key, 0, count, 0, half_width, options.dtype, staging.data());
    stream->copy_to_device(buffer.data(), staging.data(), buffer.bytes());
    return stream->synchronize();
  }

  template <typename T>
  Status upload(Buffer& buffer, const std::vector<T>& values) {
    std::copy(values.begin(), values.end(), reinterpret_cast<T*>(staging.data()));
    stream->copy_to_device(buffer.data(), staging.data(), values.size() * sizeof(T));
    return stream->synchronize();
  }

  Status make() {
    const auto width = static_cast<std::size_t>(options.width);
    TANDEM_ASSIGN(stream, device.create_stream("lora ways"));
    const std::size_t rows_bytes = most() * width * element();
    const std::size_t weight_bytes = width * width * element();
    TANDEM_ASSIGN(staging,
                  device.allocate_pinned(
                      std::max({most() * matrix_bytes(), rows_bytes, weight_bytes}), "operands"));
    for (Buffer* each : {&a, &b, &copied_a, &copied_b}) {
      TANDEM_ASSIGN(*each, device.allocate(most() * matrix_bytes(), "adapters"));
    }
    TANDEM_ASSIGN(x, device.allocate(rows_bytes, "x"));
    TANDEM_ASSIGN(y, device.allocate(rows_bytes, "y"));
    TANDEM_ASSIGN(weight, device.allocate(weight_bytes, "weight"));
    TANDEM_ASSIGN(rows, device.allocate(most() * sizeof(std::int32_t), "rows"));
    TANDEM_ASSIGN(owners, device.allocate(most() * sizeof(std::int32_t), "rows' adapters"));
    TANDEM_ASSIGN(segments, device.allocate(2 * most() * sizeof(LoraSegment), "segments"));
    TANDEM_ASSIGN(table, device.allocate(most() * sizeof(LoraMatrix), "table"));
    TANDEM_ASSIGN(copied_table, device.allocate(most() * sizeof(LoraMatrix), "table"));
    TANDEM_TRY(fill(a, 1, kScale));
    TANDEM_TRY(fill(b, 2, kScale));
    TANDEM_TRY(fill(x, 3, 1));
    TANDEM_TRY(fill(weight, 4, kScale));
    std::vector<LoraMatrix> matrices, copies;
    for (std::size_t i = 0; i < most(); ++i) {
      const auto at = [&](const Buffer& buffer) {
        return reinterpret_cast<std::uint64_t>(buffer.data()) + i * matrix_bytes();
      };
      matrices.push_back({at(a), at(b), options.rank, options.rank});
      copies.push_back({at(copied_a), at(copied_b), options.rank, options.rank});
    }
    TANDEM_TRY(upload(table, matrices));
    TANDEM_TRY(upload(copied_table, copies));
    std::vector<std::int32_t> all(most());
    std::iota(all.begin(), all.end(), 0);
    return upload(rows, all);
  }

  // Segments by adapter, then one of each row.
  Status plan(std::span<const std::int32_t> counts) {
    std::vector<LoraSegment> list;
    std::vector<std::int32_t> owner;
    for (const std::int32_t count : counts) {
      const auto adapter = static_cast<std::int32_t>(list.size());
      list.push_back({adapter, static_cast<std::int32_t>(owner.size()), count});
      owner.insert(owner.end(), static_cast<std::size_t>(count), adapter);
    }
    TANDEM_CHECK(owner.size() <= most(), "{} rows", owner.size());
    for (std::int32_t row = 0; row < static_cast<std::int32_t>(owner.size()); ++row) {
      list.push_back({row, row, 1});
    }
    TANDEM_TRY(upload(segments, list));
    return upload(owners, owner);
  }

  void enqueue(LoraWay way, std::span<const std::int32_t> counts) {
    const std::int64_t num_rows = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    LoraArgs args{};
    args.num_modules = 1;
    args.out[0] = TensorView(y.data(), options.dtype, {num_rows, options.width});
    args.table = reinterpret_cast<const LoraMatrix*>(table.data());
    args.slot_stride = 1;
    args.x = TensorView(x.data(), options.dtype, {num_rows, options.width});
    args.rows = reinterpret_cast<const std::int32_t*>(rows.data());
    args.num_rows = static_cast<std::int32_t>(num_rows);
    args.segments = reinterpret_cast<const LoraSegment*>(segments.data());
    args.num_segments = static_cast<std::int32_t>(counts.size());
    args.max_rank = options.rank;
    args.max_count = *std::ranges::max_element(counts);
    switch (way) {
      case LoraWay::segments:
        stream->lora(args);
        return;
      case LoraWay::loop:
        args.num_segments = 1;
        for (std::size_t i = 0; i < counts.size(); ++i) {
          args.max_count = counts[i];
          stream->lora(args);
          ++args.segments;
        }
        return;
      case LoraWay::gather:
        break;
    }
    const std::int64_t elements = std::int64_t{options.rank} * options.width;
    for (const auto& [from, to] : {std::pair(&a, &copied_a), std::pair(&b, &copied_b)}) {
      stream->gather_rows({TensorView(from->data(), options.dtype,
                                      {static_cast<std::int64_t>(options.max_rows), elements}),
                           reinterpret_cast<const std::int32_t*>(owners.data()),
                           TensorView(to->data(), options.dtype, {num_rows, elements})});
    }
    args.table = reinterpret_cast<const LoraMatrix*>(copied_table.data());
    args.segments += counts.size();
    args.num_segments = static_cast<std::int32_t>(num_rows);
    args.max_count = 1;
    stream->lora(args);
  }

  // The result of one operation on y = 0.
  Result<std::vector<float>> result(LoraWay way, std::span<const std::int32_t> counts) {
    const std::int64_t num_rows = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const auto elements = static_cast<std::size_t>(num_rows * options.width);
    std::fill_n(staging.data(), elements * element(), std::byte{0});
    stream->copy_to_device(y.data(), staging.data(), elements * element());
    enqueue(way, counts);
    stream->copy_to_host(staging.data(), y.data(), elements * element());
    TANDEM_TRY(stream->synchronize());
    std::vector<float> values(elements);
    convert(options.dtype, staging.data(), DType::f32, values.data(), elements);
    return values;
  }

  template <typename Enqueue>
  Result<double> replay(int rounds, Enqueue&& enqueue_one) {
    enqueue_one();  // whatever is made at first use cannot be recorded
    TANDEM_TRY(stream->synchronize());
    TANDEM_TRY(stream->begin_recording());
    for (int i = 0; i < kPerReplay; ++i) enqueue_one();
    TANDEM_ASSIGN(const std::unique_ptr<Graph> graph, stream->end_recording());
    std::vector<double> seconds;
    for (int round = -2; round < rounds; ++round) {
      const TimePoint start = clock.now();
      stream->launch(*graph);
      TANDEM_TRY(stream->synchronize());
      if (round >= 0) seconds.push_back(seconds_between(start, clock.now()) / kPerReplay);
    }
    std::ranges::nth_element(seconds, seconds.begin() + rounds / 2);
    return seconds[static_cast<std::size_t>(rounds / 2)];
  }
};

LoraWaysBench::LoraWaysBench(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LoraWaysBench::~LoraWaysBench() = default;

Result<std::unique_ptr<LoraWaysBench>> LoraWaysBench::create(Device& device,
                                                             const LoraWaysOptions& options) {
  auto impl = std::make_unique<Impl>(device, options);
  TANDEM_TRY(impl->make());
  return std::unique_ptr<LoraWaysBench>(new LoraWaysBench(std::move(impl)));
}

Result<double> LoraWaysBench::time(LoraWay way, std::span<const std::int32_t> counts, int rounds) {
  TANDEM_TRY(impl_->plan(counts));
  TANDEM_ASSIGN(const std::vector<float> expected, impl_->result(LoraWay::segments, counts));
  TANDEM_ASSIGN(const std::vector<float> got, impl_->result(way, counts));
  float largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float difference = std::abs(got[i] - expected[i]);
    largest = std::max(largest, std::abs(expected[i]));
    if (!(difference <= kTolerance)) {
      return error(StatusCode::internal, "{}: element {} is {}, and {} by segments", to_string(way),
                   i, got[i], expected[i]);
    }
  }
  if (largest == 0) return error(StatusCode::internal, "all results are nought");
  return impl_->replay(rounds, [&] { impl_->enqueue(way, counts); });
}

double LoraWaysBench::bytes(LoraWay way, std::span<const std::int32_t> counts) const {
  const double num_rows = std::accumulate(counts.begin(), counts.end(), 0.0);
  const auto both = 2 * static_cast<double>(impl_->matrix_bytes());  // A and B
  const double operands = 3 * num_rows * static_cast<double>(impl_->options.width) *
                          static_cast<double>(impl_->element());  // x, and y read and written
  const auto adapters = static_cast<double>(counts.size());
  if (way != LoraWay::gather) return operands + adapters * both;
  return operands + adapters * both + 2 * num_rows * both;
}

double LoraWaysBench::flops(std::span<const std::int32_t> counts) const {
  return std::accumulate(counts.begin(), counts.end(), 0.0) * 4 * impl_->options.rank *
         static_cast<double>(impl_->options.width);
}

Result<double> LoraWaysBench::merge(int rounds) {
  Impl& it = *impl_;
  const std::int64_t width = it.options.width;
  // Products take weights [out, in], so A lies as [in, rank] here; the contents do not matter.
  const GemmArgs args{TensorView(it.b.data(), it.options.dtype, {width, it.options.rank}),
                      TensorView(it.a.data(), it.options.dtype, {width, it.options.rank}),
                      {},
                      TensorView(it.weight.data(), it.options.dtype, {width, width}),
                      true};
  return it.replay(rounds, [&] { it.stream->gemm(args); });
}

double LoraWaysBench::merge_bytes() const {
  return 2 * static_cast<double>(impl_->weight.bytes()) +
         2 * static_cast<double>(impl_->matrix_bytes());
}

std::vector<std::int32_t> rows_by_popularity(std::string_view popularity, std::int32_t rows) {
  if (popularity == "identical") return {rows};
  if (popularity == "distinct") return std::vector<std::int32_t>(static_cast<std::size_t>(rows), 1);
  const auto adapters = static_cast<std::int32_t>(std::ceil(std::sqrt(rows)));
  std::vector<std::int32_t> counts(static_cast<std::size_t>(adapters), 1);
  double all = 0;
  for (std::int32_t i = 1; i <= adapters; ++i) all += std::pow(i, -1.5);
  std::int32_t left = rows - adapters;
  for (std::int32_t i = 0; i < adapters; ++i) {
    const double share = popularity == "skewed" ? std::pow(i + 1, -1.5) / all : 1.0 / adapters;
    const auto more =
        std::min(left, static_cast<std::int32_t>(std::ceil(share * (rows - adapters))));
    counts[static_cast<std::size_t>(i)] += more;
    left -= more;
  }
  counts.front() += left;
  return counts;
}

}  // namespace tandem
