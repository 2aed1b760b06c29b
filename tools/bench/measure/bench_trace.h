// Requests that arrive at given times, made from seeds or read from a file, and their answers'
// times. They go through Engine::submit, without a server.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/batching/engine.h"

namespace tandem {

// Lengths of prompts and answers, in tokens.
//
//   alpaca          log-normal, means 19 and 58, sigma 0.6 and 0.9, cut at 512
//   sharegpt        log-normal, means 161 and 338, sigma 1.0 and 0.8, cut at 1024
//   uniform[LO,HI]  both, independent
//   a file          of lines "PROMPT ANSWER", taken in order, again and again
//
// The means are those of the vLLM paper (its figure 11) before the cut, which takes up to 6 % of
// one (sharegpt's answers); the widths are ours. A prompt has at least 1 token and an answer 2, so
// that there is a time between tokens.
class LengthDistribution {
 public:
  static Result<LengthDistribution> parse(const std::string& text);
  std::pair<std::int32_t, std::int32_t> draw(std::mt19937_64& random);

 private:
  struct Side {
    double mean = 0, sigma = 0;
  };
  Side prompt_, output_;             // log-normal; unused with low_ > 0 or pairs
  std::int32_t most_ = 0;            // of either
  std::int32_t low_ = 0, high_ = 0;  // uniform
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs_;
  std::size_t next_ = 0;
};

struct TracedRequest {
  double at_s = 0;      // since the start of the trace
  std::string adapter;  // empty: the base model
  std::int32_t prompt_tokens = 0;
  std::int32_t output_tokens = 0;
};
using ArrivalTrace = std::vector<TracedRequest>;  // by time

// One request for each adapter, in their order, with exponential pauses between: Poisson(rate).
ArrivalTrace poisson_trace(const std::vector<std::string>& adapters, double rate_per_s,
                           LengthDistribution lengths, std::uint64_t seed);
// Returns requests that all arrive at once.
ArrivalTrace burst_trace(const std::vector<std::string>& adapters, std::int32_t prompt_tokens,
                         std::int32_t output_tokens);
// Returns the requests of both traces in the order of time.
ArrivalTrace merge_traces(const ArrivalTrace& a, const ArrivalTrace& b);

struct AnsweredRequest {
  double at_s = 0;  // as in the trace
  double ttft_s = 0;
  double tpot_s = 0;  // mean time between tokens; 0 if there is one token
  double total_s = 0;
  std::int32_t tokens = 0;
  std::int32_t cpu_layers = 0;  // computed by CPU workers
  std::string tier;             // location of the adapter on arrival; "" for the base
};

struct AnsweredTrace {
  std::vector<AnsweredRequest> requests;  // as in the trace
  double seconds = 0;                     // first submission -> last answer
};

// Makes a greedy request with a prompt of random tokens, which no prefix cache has seen.
GenerationRequest random_request(const TracedRequest& traced, std::int64_t vocab_size,
                                 std::mt19937_64& random);
// Returns the next output of a request; an error if it failed or is silent for two minutes.
Result<OutputDelta> next_delta(Generation& generation);

// Submits each request at its time and reads all answers. Returns an error if any of them fails.
Result<AnsweredTrace> run_trace(Engine& engine, const Clock& clock, const ArrivalTrace& trace,
                                std::uint64_t seed);

}  // namespace tandem
