#include "tools/bench/engine/bench_tracing.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/log/log.h"
#include "base/trace/export/tracing.h"
#include "base/trace/tracer.h"
#include "tools/bench/measure/bench_serving.h"

namespace tandem {
namespace {

constexpr std::int32_t kTracedBatch = 8;
constexpr std::int32_t kTracedPrompt = 16;
constexpr std::int32_t kTracedTokens = 100;  // per sequence and round
constexpr std::uint64_t kNeverFull = std::uint64_t{1} << 62;

// Nanoseconds that the engine's thread spends on a step's span with tracing on or off; the minimum
// of many runs.
double span_ns(bool traced) {
  constexpr int kTimes = 200;
  constexpr int kSpans = 500;
  double least = HUGE_VAL;
  std::vector<Span> spans;
  for (int i = 0; i < kTimes; ++i) {
    traced ? trace::switch_on() : trace::switch_off();
    const TimePoint begin = SteadyClock().now();
    for (int n = 0; n < kSpans; ++n) {
      if (!trace::on()) continue;
      trace::record(device_span("step", SpanTrack::steps, begin, begin)
                        .add("step", static_cast<double>(n))
                        .add("rows", 8.0)
                        .add("sequences", 8.0));
    }
    least = std::min(least, seconds_between(begin, SteadyClock().now()) * 1e9 / kSpans);
    spans.clear();
    trace::take(spans);
  }
  trace::switch_off();
  return least;
}

}  // namespace

Status measure_tracing(EngineSettings settings, std::int64_t rounds, BenchReport& report) {
  report.add({"L0", "recording a step's span", span_ns(true), "ns", Must::be_at_most, 500});
  report.fact("the same with tracing off, ns", span_ns(false));
  settings.options.max_num_seqs = kTracedBatch;
  settings.max_model_len = kTracedPrompt + kTracedTokens;
  TracingOptions options;
  options.file = "/dev/null";  // excludes the disk's time
  options.max_file_bytes = kNeverFull;
  options.service = "tandem bench";
  TANDEM_ASSIGN(const auto tracing, Tracing::create(options));
  TANDEM_ASSIGN(const auto bench,
                ServingBench::start(settings));  // after `tracing`, so that its events are timed
  log::info("{} sequences, traced and not, {} rounds", kTracedBatch, rounds);
  Samples off{"engine step, 8 sequences", "ms", {}};
  Samples on{"engine step, 8 sequences, traced", "ms", {}};
  const std::uint64_t before = trace::counts().recorded.load();
  Samples ratio{"a traced step over the one beside it", "", {}};
  for (std::int64_t round = -1; round < rounds; ++round) {  // the first round warms up
    double seen[2] = {};
    for (int turn = 0; turn < 2; ++turn) {
      const bool traced = (turn + round) % 2 == 0;  // the order alternates
      Samples* const samples = traced ? &on : &off;
      trace::switch_off();
      if (traced) trace::switch_on();
      GenerationRequest like;
      like.trace = trace::begin("");
      TANDEM_ASSIGN(const StepShares shares,
                    bench->steady_decode(kTracedBatch, kTracedPrompt, kTracedTokens, like));
      seen[traced ? 1 : 0] = shares.step * (1 + shares.gap) * 1e3;
      if (round >= 0) samples->values.push_back(seen[traced ? 1 : 0]);
    }
    if (round >= 0) ratio.values.push_back(seen[1] / seen[0]);
  }
  report.add(off);
  report.add(on);
  report.add(ratio);
  report.fact("spans recorded", trace::counts().recorded.load() - before);
  report.add({"L1", "decode step of 8 sequences that is traced, over one that is not",
              ratio.median(), "", Must::be_at_most, 1.02});
  return {};
}

}  // namespace tandem
