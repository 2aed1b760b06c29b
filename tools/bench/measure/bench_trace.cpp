#include "tools/bench/measure/bench_trace.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

namespace tandem {
namespace {

// Timeout: no step, load or queue takes this long.
constexpr Duration kPatience = std::chrono::seconds(120);

std::int32_t draw_lognormal(double mean, double sigma, std::int32_t least, std::int32_t most,
                            std::mt19937_64& random) {
  std::lognormal_distribution<double> length(std::log(mean) - sigma * sigma / 2, sigma);
  const double drawn = std::round(length(random));
  return static_cast<std::int32_t>(
      std::clamp(drawn, static_cast<double>(least), static_cast<double>(most)));
}

Result<std::vector<std::pair<std::int32_t, std::int32_t>>> read_pairs(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return error(StatusCode::not_found,
                 "lengths: '{}' is neither alpaca, sharegpt, uniform[LO,HI] nor a file", path);
  }
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    if (text.empty() || text.front() == '#') continue;
    std::istringstream fields(text);
    std::int32_t prompt = 0;
    std::int32_t output = 0;
    if (!(fields >> prompt >> output) || !(fields >> std::ws).eof() || prompt < 1 || output < 1) {
      return invalid("lengths: line {} of {} is not two numbers of tokens: '{}'", line, path, text);
    }
    pairs.emplace_back(prompt, output);
  }
  if (pairs.empty()) return invalid("lengths: {} has no line", path);
  return pairs;
}

}  // namespace

Result<LengthDistribution> LengthDistribution::parse(const std::string& text) {
  LengthDistribution lengths;
  if (text == "alpaca") {
    lengths.prompt_ = {19, 0.6};
    lengths.output_ = {58, 0.9};
    lengths.most_ = 512;
    return lengths;
  }
  if (text == "sharegpt") {
    lengths.prompt_ = {161, 1.0};
    lengths.output_ = {338, 0.8};
    lengths.most_ = 1024;
    return lengths;
  }
  if (text.starts_with("uniform")) {
    std::istringstream fields(text.substr(7));
    char open = 0;
    char comma = 0;
    char close = 0;
    if (!(fields >> open >> lengths.low_ >> comma >> lengths.high_ >> close) || open != '[' ||
        comma != ',' || close != ']' || lengths.low_ < 1 || lengths.high_ < lengths.low_) {
      return invalid("lengths: '{}' is not uniform[LO,HI] with 1 <= LO <= HI", text);
    }
    return lengths;
  }
  TANDEM_ASSIGN(lengths.pairs_, read_pairs(text));
  return lengths;
}

std::pair<std::int32_t, std::int32_t> LengthDistribution::draw(std::mt19937_64& random) {
  if (!pairs_.empty()) return pairs_[next_++ % pairs_.size()];
  if (low_ > 0) {
    std::uniform_int_distribution<std::int32_t> length(low_, high_);
    const std::int32_t prompt = length(random);
    return {prompt, length(random)};
  }
  const std::int32_t prompt = draw_lognormal(prompt_.mean, prompt_.sigma, 1, most_, random);
  return {prompt, draw_lognormal(output_.mean, output_.sigma, 2, most_, random)};
}

ArrivalTrace poisson_trace(const std::vector<std::string>& adapters, double rate_per_s,
                           LengthDistribution lengths, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> pause(rate_per_s);
  ArrivalTrace trace;
  double at = 0;
  for (const std::string& adapter : adapters) {
    at += pause(random);
    const auto [prompt, output] = lengths.draw(random);
    trace.push_back({at, adapter, prompt, output});
  }
  return trace;
}

ArrivalTrace burst_trace(const std::vector<std::string>& adapters, std::int32_t prompt_tokens,
                         std::int32_t output_tokens) {
  ArrivalTrace trace;
  trace.reserve(adapters.size());
  for (const std::string& adapter : adapters) {
    trace.push_back({0, adapter, prompt_tokens, output_tokens});
  }
  return trace;
}

ArrivalTrace merge_traces(const ArrivalTrace& a, const ArrivalTrace& b) {
  ArrivalTrace both = a;
  both.insert(both.end(), b.begin(), b.end());
  std::stable_sort(both.begin(), both.end(),
                   [](const TracedRequest& x, const TracedRequest& y) { return x.at_s < y.at_s; });
  return both;
}

GenerationRequest random_request(const TracedRequest& traced, std::int64_t vocab_size,
                                 std::mt19937_64& random) {
  GenerationRequest request;
  request.adapter = traced.adapter;
  std::uniform_int_distribution<TokenId> any(0, static_cast<TokenId>(vocab_size) - 1);
  for (std::int32_t i = 0; i < traced.prompt_tokens; ++i) request.prompt.push_back(any(random));
  request.sampling.temperature = 0;
  request.max_tokens = traced.output_tokens;
  request.ignore_eos = true;
  return request;
}

Result<OutputDelta> next_delta(Generation& generation) {
  std::optional<OutputDelta> delta = generation.next(kPatience);
  if (!delta) return error(StatusCode::internal, "a request got no answer within two minutes");
  if (delta->finish == FinishReason::failed) return delta->error;
  return *std::move(delta);
}

Result<AnsweredTrace> run_trace(Engine& engine, const Clock& clock, const ArrivalTrace& trace,
                                std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<GenerationRequest> requests;
  requests.reserve(trace.size());
  for (const TracedRequest& traced : trace) {
    requests.push_back(random_request(traced, engine.model().spec().vocab_size, random));
  }
  std::vector<std::unique_ptr<Generation>> generations;
  const TimePoint start = clock.now();
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const std::chrono::duration<double> at(trace[i].at_s);
    std::this_thread::sleep_until(start + std::chrono::duration_cast<Duration>(at));
    TANDEM_ASSIGN(generations.emplace_back(), engine.submit(std::move(requests[i])));
  }
  AnsweredTrace answered;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    Generation& generation = *generations[i];
    while (!generation.done()) {
      TANDEM_ASSIGN([[maybe_unused]] const OutputDelta delta, next_delta(generation));
    }
    const GenerationStats stats = generation.stats();
    const double tpot = stats.completion_tokens > 1
                            ? (stats.total_s - stats.ttft_s) / (stats.completion_tokens - 1)
                            : 0;
    answered.requests.push_back({trace[i].at_s, stats.ttft_s, tpot, stats.total_s,
                                 stats.completion_tokens, stats.cpu_layers, stats.adapter_tier});
  }
  answered.seconds = seconds_between(start, clock.now());
  return answered;
}

}  // namespace tandem
