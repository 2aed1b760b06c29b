// Operators: Punica's figures 7 to 9, and S-LoRA's merge.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numeric>

#include "tools/bench/measure/bench_lora_ways.h"
#include "tools/bench/papers/on_device.h"

namespace tandem::papers {
namespace {

constexpr std::array kWays = {LoraWay::segments, LoraWay::loop, LoraWay::gather};

struct Operators {
  std::unique_ptr<Device> device;
  std::unique_ptr<LoraWaysBench> ways;
  std::vector<std::int32_t> batches;
  int rounds = 20;
};

Result<Operators> operators(const PapersBench& bench, std::int32_t rank) {
  Operators made;
  TANDEM_ASSIGN(const PapersModel model, papers_model(bench));
  TANDEM_ASSIGN(made.device, model.make_device());
  LoraWaysOptions options;
  options.dtype = model.dtype;
  options.width = model.spec.hidden_size;
  options.rank = rank;
  made.batches =
      bench.quick ? std::vector<std::int32_t>{1, 16} : std::vector<std::int32_t>{1, 4, 16, 32, 64};
  options.max_rows = made.batches.back();
  if (bench.quick) made.rounds = 3;
  TANDEM_ASSIGN(made.ways, LoraWaysBench::create(*made.device, options));
  return made;
}

}  // namespace

Result<Findings> device_roofline(const PapersBench& bench) {
  Findings found;
  found.verdict = Verdict::measured;
  TANDEM_ASSIGN(const Operators it, operators(bench, 16));
  double best = 0;
  for (const std::string_view popularity : kPopularities) {
    for (const std::int32_t batch : it.batches) {
      const auto counts = rows_by_popularity(popularity, batch);
      TANDEM_ASSIGN(const double seconds, it.ways->time(LoraWay::segments, counts, it.rounds));
      const double flops = it.ways->flops(counts);
      found.add(popularity, flops / it.ways->bytes(LoraWay::segments, counts),
                flops / seconds / 1e9);
      best = std::max(best, flops / seconds / 1e9);
    }
  }
  const auto last = [&](std::size_t i) { return found.series[i].points.back(); };
  found.here = fmt::format(
      "batch {}: distinct {:.1f} GFLOP/s at {:.2f} FLOP a byte, identical {:.1f} at {:.2f}; {}",
      it.batches.back(), last(0).second, last(0).first, last(3).second, last(3).first,
      it.device->info().name);
  return found;
}

Result<Findings> device_operators(const PapersBench& bench) {
  Findings found;
  TANDEM_ASSIGN(const Operators it, operators(bench, 16));
  const std::int32_t most = it.batches.back();
  bool fewer_bytes = true;
  for (const std::string_view popularity : kPopularities) {
    for (const std::int32_t batch : it.batches) {
      const auto counts = rows_by_popularity(popularity, batch);
      for (const LoraWay way : kWays) {
        TANDEM_ASSIGN(const double seconds, it.ways->time(way, counts, it.rounds));
        found.add(fmt::format("{}, {}", to_string(way), popularity), batch, seconds * 1e6);
      }
      fewer_bytes = fewer_bytes && it.ways->bytes(LoraWay::gather, counts) >
                                       it.ways->bytes(LoraWay::segments, counts);
    }
  }
  const auto us = [&](LoraWay way, std::string_view popularity) {
    return found.at(fmt::format("{}, {}", to_string(way), popularity), most);
  };
  const auto distinct = rows_by_popularity("distinct", most);
  found.here = fmt::format(
      "batch {}, distinct: segments {:.0f} us, loop {:.0f}, gather-bmm {:.0f}; identical {:.0f}, "
      "{:.0f}, {:.0f}; gather moves {:.1f} times the bytes; {}",
      most, us(LoraWay::segments, "distinct"), us(LoraWay::loop, "distinct"),
      us(LoraWay::gather, "distinct"), us(LoraWay::segments, "identical"),
      us(LoraWay::loop, "identical"), us(LoraWay::gather, "identical"),
      it.ways->bytes(LoraWay::gather, distinct) / it.ways->bytes(LoraWay::segments, distinct),
      it.device->info().name);
  found.judge(fewer_bytes, "gather-bmm moves no more bytes");
  return found;
}

Result<Findings> device_ranks(const PapersBench& bench) {
  Findings found;
  found.verdict = Verdict::measured;
  std::string text;
  for (const std::int32_t rank : {8, 16, 32, 64}) {
    TANDEM_ASSIGN(const Operators it, operators(bench, rank));
    for (const std::string_view popularity : kPopularities) {
      for (const std::int32_t batch : it.batches) {
        TANDEM_ASSIGN(
            const double seconds,
            it.ways->time(LoraWay::segments, rows_by_popularity(popularity, batch), it.rounds));
        found.add(fmt::format("{}, rank {}", popularity, rank), batch, seconds * 1e6);
      }
    }
    const auto us = [&](std::string_view popularity, std::int32_t batch) {
      return found.at(fmt::format("{}, rank {}", popularity, rank), batch);
    };
    const std::int32_t most = it.batches.back();
    text += fmt::format("{}rank {}: {:.0f} us alone, {} rows distinct {:.0f}, identical {:.0f}",
                        text.empty() ? "" : "; ", rank, us("distinct", 1), most,
                        us("distinct", most), us("identical", most));
  }
  found.here = text;
  return found;
}

Result<Findings> device_merge(const PapersBench& bench) {
  Findings found;
  double more = HUGE_VAL;
  for (const std::int32_t rank : {8, 16, 32, 64}) {
    TANDEM_ASSIGN(const Operators it, operators(bench, rank));
    const auto counts = rows_by_popularity("distinct", it.batches.back());
    TANDEM_ASSIGN(const double merged, it.ways->merge(it.rounds));
    TANDEM_ASSIGN(const double on_the_fly, it.ways->time(LoraWay::segments, counts, it.rounds));
    found.add("merge", rank, merged * 1e3);
    found.add(fmt::format("on the fly, {} adapters", counts.size()), rank, on_the_fly * 1e3);
    const std::vector<std::int32_t> one = {1};
    more = std::min(more, it.ways->merge_bytes() / it.ways->bytes(LoraWay::segments, one));
  }
  const auto& fly = found.series[1];
  found.here = fmt::format(
      "one module, rank 64: merge {:.3f} ms, {} {:.3f} ms; a merge moves at least {:.0f} times an "
      "adapter's bytes",
      found.at("merge", 64), fly.name, fly.points.back().second, more);
  found.judge(more > 2, "a merge moves no more bytes than an adapter has");
  return found;
}

}  // namespace tandem::papers
