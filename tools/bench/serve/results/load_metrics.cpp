#include "tools/bench/serve/results/load_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/parse_number.h"

namespace tandem {
namespace {

bool is_good(const RequestTimes& times, const Goodput& goodput) {
  const auto meets = [](std::optional<double> objective, double value) {
    return !objective || value <= *objective;
  };
  // An answer of one token has no time between tokens that could miss the objective.
  return meets(goodput.ttft_ms, times.ttft_ms) && meets(goodput.e2el_ms, times.e2el_ms) &&
         (!times.tpot_ms || meets(goodput.tpot_ms, *times.tpot_ms));
}

std::int64_t most_at_once(const std::vector<RequestRecord>& records) {
  std::vector<std::pair<double, int>> changes;
  for (const RequestRecord& record : records) {
    if (record.outcome == RequestOutcome::unsent) continue;
    changes.emplace_back(record.sent_s, 1);
    changes.emplace_back(record.end_s, -1);
  }
  std::sort(changes.begin(), changes.end());  // at equal times ends sort before sends
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const auto& [at, by] : changes) {
    now += by;
    most = std::max(most, now);
  }
  return most;
}

double most_tokens_in_a_second(const std::vector<RequestRecord>& records, double duration_s) {
  std::vector<double> seconds(static_cast<std::size_t>(std::max(0.0, duration_s)) + 1, 0.0);
  for (const RequestRecord& record : records) {
    if (record.outcome != RequestOutcome::ok) continue;
    const double events = static_cast<double>(record.gaps_ms.size()) + 1;
    const double tokens_each = static_cast<double>(record.output_tokens) / events;
    double at_s = record.first_s;
    const auto count = [&] {
      const auto second = static_cast<std::size_t>(std::max(0.0, at_s));
      seconds[std::min(second, seconds.size() - 1)] += tokens_each;
    };
    count();
    for (const float gap_ms : record.gaps_ms) {
      at_s += gap_ms * 1e-3;
      count();
    }
  }
  return *std::max_element(seconds.begin(), seconds.end());
}

// Samples of an adapter before they are sorted.
struct AdapterSamples {
  std::int64_t completed = 0, failed = 0, cold = 0;
  std::optional<double> first_ttft_ms;
  std::vector<double> cold_ttft_ms, warm_ttft_ms, tpot_ms;
};

}  // namespace

SampleSpread::SampleSpread(std::vector<double> samples) : sorted_(std::move(samples)) {
  if (sorted_.empty()) return;
  std::sort(sorted_.begin(), sorted_.end());
  const auto count = static_cast<double>(sorted_.size());
  mean_ = std::accumulate(sorted_.begin(), sorted_.end(), 0.0) / count;
  double squares = 0;
  for (const double sample : sorted_) squares += (sample - mean_) * (sample - mean_);
  deviation_ = std::sqrt(squares / count);
}

double SampleSpread::percentile(double percent) const {
  if (sorted_.empty()) return 0;
  const double at = percent / 100 * static_cast<double>(sorted_.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted_.size() - 1);
  const double share = at - static_cast<double>(below);
  return sorted_[below] + (sorted_[above] - sorted_[below]) * share;
}

Result<Goodput> parse_goodput(const std::vector<std::string>& texts) {
  Goodput goodput;
  for (const std::string& text : texts) {
    const std::size_t colon = text.find(':');
    const std::string name = text.substr(0, colon);
    const std::optional<double> ms =
        colon == std::string::npos ? std::nullopt
                                   : parse_number<double>(std::string_view(text).substr(colon + 1));
    std::optional<double>* const which = name == "ttft"   ? &goodput.ttft_ms
                                         : name == "tpot" ? &goodput.tpot_ms
                                         : name == "e2el" ? &goodput.e2el_ms
                                                          : nullptr;
    if (which == nullptr || !ms || !(*ms > 0)) {
      return invalid("goodput: '{}' is no objective; give ttft:MS, tpot:MS or e2el:MS", text);
    }
    if (*which) return invalid("goodput: {} is given twice", name);
    *which = ms;
  }
  return goodput;
}

Result<std::vector<double>> parse_percentiles(const std::string& text) {
  std::vector<double> percentiles;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::optional<double> percent = parse_number<double>(rest.substr(0, end));
    if (!percent || !(*percent > 0) || !(*percent < 100)) {
      return invalid("metric_percentiles: '{}' is not above 0 and below 100; example: 50,90,99",
                     rest.substr(0, end));
    }
    percentiles.push_back(*percent);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return percentiles;
}

RequestTimes times_of(const RequestRecord& record, CountFrom from) {
  const double begin_s = from == CountFrom::due ? record.due_s : record.sent_s;
  RequestTimes times;
  times.ttft_ms = (record.first_s - begin_s) * 1e3;
  times.e2el_ms = (record.last_s - begin_s) * 1e3;
  if (record.output_tokens > 1) {
    times.tpot_ms =
        (record.last_s - record.first_s) * 1e3 / static_cast<double>(record.output_tokens - 1);
  }
  return times;
}

LoadFigures figures_of(const std::vector<RequestRecord>& records, double duration_s,
                       const Goodput& goodput, CountFrom from) {
  LoadFigures figures;
  figures.duration_s = duration_s;
  std::vector<double> ttft, tpot, itl, e2el, cold, warm, delays;
  std::map<std::int32_t, AdapterSamples> adapters;
  for (const RequestRecord& record : records) {
    if (record.outcome == RequestOutcome::unsent) {
      ++figures.unsent;
      continue;
    }
    delays.push_back((record.sent_s - record.due_s) * 1e3);
    AdapterSamples& adapter = adapters[record.adapter];
    if (record.outcome == RequestOutcome::interrupted) {
      ++figures.interrupted;
      continue;
    }
    if (record.outcome == RequestOutcome::failed) {
      ++figures.failed;
      ++adapter.failed;
      ++figures.errors[record.error];
      continue;
    }
    const RequestTimes times = times_of(record, from);
    ++figures.completed;
    ++adapter.completed;
    figures.input_tokens += record.prompt_tokens;
    figures.output_tokens += record.output_tokens;
    ttft.push_back(times.ttft_ms);
    e2el.push_back(times.e2el_ms);
    if (times.tpot_ms) tpot.push_back(*times.tpot_ms);
    itl.insert(itl.end(), record.gaps_ms.begin(), record.gaps_ms.end());
    if (!goodput.empty() && is_good(times, goodput)) ++figures.good;
    if (times.tpot_ms) adapter.tpot_ms.push_back(*times.tpot_ms);
    if (record.first_touch) adapter.first_ttft_ms = times.ttft_ms;
    const bool was_cold = is_cold(record);
    (was_cold ? adapter.cold_ttft_ms : adapter.warm_ttft_ms).push_back(times.ttft_ms);
    adapter.cold += was_cold ? 1 : 0;
    if (record.adapter != kBaseModel) (was_cold ? cold : warm).push_back(times.ttft_ms);
  }
  if (duration_s > 0) {
    const auto per_s = [&](std::int64_t count) { return static_cast<double>(count) / duration_s; };
    figures.request_throughput = per_s(figures.completed);
    figures.request_goodput = per_s(figures.good);
    figures.output_throughput = per_s(figures.output_tokens);
    figures.total_token_throughput = per_s(figures.input_tokens + figures.output_tokens);
  }
  figures.most_output_tokens_per_s = most_tokens_in_a_second(records, duration_s);
  figures.most_concurrent = most_at_once(records);
  figures.ttft_ms = SampleSpread(std::move(ttft));
  figures.tpot_ms = SampleSpread(std::move(tpot));
  figures.itl_ms = SampleSpread(std::move(itl));
  figures.e2el_ms = SampleSpread(std::move(e2el));
  figures.cold_ttft_ms = SampleSpread(std::move(cold));
  figures.warm_ttft_ms = SampleSpread(std::move(warm));
  figures.send_delay_ms = SampleSpread(std::move(delays));
  for (auto& [number, samples] : adapters) {
    figures.adapters.push_back(
        {number, samples.completed, samples.failed, samples.cold, samples.first_ttft_ms,
         SampleSpread(std::move(samples.cold_ttft_ms)),
         SampleSpread(std::move(samples.warm_ttft_ms)), SampleSpread(std::move(samples.tpot_ms))});
  }
  return figures;
}

}  // namespace tandem
