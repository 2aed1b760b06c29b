#include "scheduler/cluster/simulator/workload.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "scheduler/cluster/policies/policy.h"
#include "scheduler/cluster/policies/rank_tally.h"

namespace tandem {
namespace {

constexpr std::int64_t kMaxAdapters = 2'000'000;
constexpr std::int32_t kFewestTokens = 8;  // for uniform lengths
constexpr double kMinuteS = 60;

}  // namespace

Workload::Workload(WorkloadOptions options, const AzureTrace* trace)
    : options_(std::move(options)),
      trace_(trace),
      arrivals_(mix_hash(options_.seed, 1)),
      adapters_(mix_hash(options_.seed, 2)),
      lengths_(mix_hash(options_.seed, 3)),
      prefixes_(mix_hash(options_.seed, 4)) {}

Result<Workload> Workload::create(const WorkloadOptions& options, const AzureTrace* trace) {
  if (!(options.requests_per_s > 0) || !(options.duration_s > 0) || !(options.cv > 0)) {
    return invalid("requests per second, duration and cv must be above zero");
  }
  if (options.adapters < 1 || options.adapters > kMaxAdapters) {
    return invalid("adapters must be 1 to {}", kMaxAdapters);
  }
  if (options.ranks.empty()) return invalid("ranks: name one at least");
  for (const std::int32_t rank : options.ranks) {
    if (rank < 1 || rank > RankTally::kMaxRank) {
      return invalid("rank {} is not from 1 to {}", rank, RankTally::kMaxRank);
    }
  }
  if (options.prefixes < 0 || options.prefix_tokens < 1) {
    return invalid("there cannot be {} prefixes of {} tokens", options.prefixes,
                   options.prefix_tokens);
  }
  if (options.shift_at < 0 || options.shift_at >= 1) return invalid("shift must be 0 to below 1");
  Workload workload(options, trace);
  if (options.arrivals == "recorded") {
    if (options.recorded == nullptr || options.recorded->empty()) {
      return invalid("recorded arrivals need their requests: --requests FILE");
    }
    workload.measure_recorded();
    return workload;
  }
  if (options.lengths == "alpaca") {
    workload.prompt_ = {19, 0.6};
    workload.answer_ = {58, 0.9};
  } else if (options.lengths == "sharegpt") {
    workload.prompt_ = {161, 1.0};
    workload.answer_ = {338, 0.8};
    workload.most_tokens_ = 1024;
  } else if (options.lengths == "arena") {
    workload.prompt_ = {85, 1.0};
    workload.answer_ = {165, 0.8};
    workload.most_tokens_ = 1024;
  } else if (options.lengths != "uniform") {
    return invalid("lengths '{}' are unknown; there are alpaca, sharegpt, arena, uniform",
                   options.lengths);
  }
  if (options.arrivals == "trace") {
    if (trace == nullptr) return invalid("arrivals from a trace need its file: --trace FILE");
    workload.options_.adapters = trace->functions;
    workload.trace_scale_ = options.requests_per_s * kMinuteS *
                            static_cast<double>(trace->minutes.size()) /
                            static_cast<double>(trace->calls());
  } else if (options.arrivals == "poisson" || options.arrivals == "gamma" ||
             options.arrivals == "rise_and_fall") {
    TANDEM_ASSIGN(const auto weights,
                  popularity_weights(options.popularity, options.adapters, options.zipf_exponent));
    workload.choice_.emplace(weights);
  } else {
    return invalid(
        "arrivals '{}' are unknown; there are poisson, gamma, rise_and_fall, trace, recorded",
        options.arrivals);
  }
  constexpr int kDraws = 20'000;
  std::mt19937_64 random(7);
  for (int i = 0; i < kDraws; ++i) {
    workload.mean_prompt_tokens_ += workload.draw_length(workload.prompt_, random) / double{kDraws};
    workload.mean_answer_tokens_ += workload.draw_length(workload.answer_, random) / double{kDraws};
  }
  if (options.prefixes > 0) workload.mean_prompt_tokens_ += options.prefix_tokens;
  for (const std::int32_t rank : options.ranks) {
    workload.mean_rank_ += static_cast<double>(rank) / static_cast<double>(options.ranks.size());
    workload.largest_rank_ = std::max(workload.largest_rank_, rank);
  }
  return workload;
}

std::int32_t Workload::draw_length(const Length& length, std::mt19937_64& random) const {
  if (length.mean == 0) {
    return std::uniform_int_distribution<std::int32_t>(kFewestTokens, most_tokens_)(random);
  }
  const double mu = std::log(length.mean) - length.sigma * length.sigma / 2;
  const double drawn = std::lognormal_distribution<double>(mu, length.sigma)(random);
  return std::clamp(static_cast<std::int32_t>(std::lround(std::min(drawn, 1e6))), 1, most_tokens_);
}

bool Workload::fill_minute() {
  while (minute_.empty()) {
    if (next_minute_ == trace_->minutes.size()) return false;
    const double begin_s = kMinuteS * static_cast<double>(next_minute_);
    for (const auto& [function, calls] : trace_->minutes[next_minute_++]) {
      const double scaled = calls * trace_scale_;
      const auto whole = static_cast<std::int64_t>(scaled);
      const double rest = scaled - static_cast<double>(whole);
      std::uniform_real_distribution<double> share(0, 1);
      for (std::int64_t left = whole + (share(arrivals_) < rest ? 1 : 0); left > 0; --left) {
        minute_.emplace_back(begin_s + kMinuteS * share(arrivals_), function);
      }
    }
    std::sort(minute_.begin(), minute_.end(), std::greater<>());
  }
  return true;
}

std::optional<double> Workload::next_arrival() {
  const double mean_s = 1 / options_.requests_per_s;
  if (options_.arrivals == "gamma") {
    const double shape = 1 / (options_.cv * options_.cv);
    now_s_ += std::gamma_distribution<double>(shape, mean_s / shape)(arrivals_);
  } else if (options_.arrivals == "rise_and_fall") {
    // Thinning: arrivals at the peak's rate, of which the current rate's share is kept.
    std::uniform_real_distribution<double> share(0, 1);
    double kept = 0;
    do {
      now_s_ += std::exponential_distribution<double>(2 / mean_s)(arrivals_);
      kept = 1 - std::abs(2 * now_s_ / options_.duration_s - 1);
    } while (now_s_ < options_.duration_s && share(arrivals_) >= kept);
  } else {
    now_s_ += std::exponential_distribution<double>(1 / mean_s)(arrivals_);
  }
  return now_s_;
}

void Workload::measure_recorded() {
  const auto count = static_cast<double>(options_.recorded->size());
  for (const SimRequest& request : *options_.recorded) {
    mean_prompt_tokens_ += request.prompt_tokens / count;
    mean_answer_tokens_ += request.answer_tokens / count;
    mean_rank_ += request.rank / count;
    largest_rank_ = std::max(largest_rank_, request.rank);
  }
}

std::optional<SimRequest> Workload::next() {
  if (options_.arrivals == "recorded") {
    if (next_recorded_ == options_.recorded->size()) return std::nullopt;
    return (*options_.recorded)[next_recorded_++];
  }
  SimRequest request;
  std::int64_t place = 0;  // of the adapter in the order of popularity
  if (trace_ != nullptr && options_.arrivals == "trace") {
    if (!fill_minute()) return std::nullopt;
    request.arrival_s = minute_.back().first;
    place = minute_.back().second;
    minute_.pop_back();
  } else {
    request.arrival_s = *next_arrival();
    place = static_cast<std::int64_t>(choice_->draw(adapters_));
  }
  if (request.arrival_s >= options_.duration_s) return std::nullopt;
  // Shifts by half of the list, so that rarely requested adapters become the most popular.
  const bool shifted =
      options_.shift_at > 0 && request.arrival_s >= options_.shift_at * options_.duration_s;
  if (shifted) place = (place + options_.adapters / 2) % options_.adapters;
  request.adapter = ClusterAdapterId(static_cast<std::int32_t>(place));
  const std::uint64_t hash = mix_hash(options_.seed, static_cast<std::uint64_t>(place));
  request.rank = options_.ranks[hash % options_.ranks.size()];
  request.prompt_tokens = draw_length(prompt_, lengths_);
  request.answer_tokens = draw_length(answer_, lengths_);
  if (options_.prefixes > 0) {
    std::uniform_int_distribution<std::int32_t> which(0, options_.prefixes - 1);
    request.prefix = std::int64_t{request.adapter.value()} * options_.prefixes + which(prefixes_);
    request.prefix_tokens = options_.prefix_tokens;
    request.prompt_tokens += request.prefix_tokens;
  }
  return request;
}

}  // namespace tandem
