// Figures computed from a run's records. No input or output: equal records give equal figures.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "tools/bench/serve/results/request_record.h"

namespace tandem {

// Sorted samples and their statistics. Percentiles between samples are interpolated and the
// deviation is that of the population, both as in numpy.
class SampleSpread {
 public:
  SampleSpread() = default;
  explicit SampleSpread(std::vector<double> samples);

  std::size_t count() const { return sorted_.size(); }
  double mean() const { return mean_; }
  double deviation() const { return deviation_; }
  double percentile(double percent) const;  // 0 without samples
  double median() const { return percentile(50); }
  const std::vector<double>& sorted() const { return sorted_; }

 private:
  std::vector<double> sorted_;
  double mean_ = 0;
  double deviation_ = 0;
};

// Objectives in ms, from `--goodput ttft:200 tpot:50 e2el:5000`.
struct Goodput {
  std::optional<double> ttft_ms, tpot_ms, e2el_ms;
  bool empty() const { return !ttft_ms && !tpot_ms && !e2el_ms; }
};
Result<Goodput> parse_goodput(const std::vector<std::string>& texts);

// Reads "50,90,99.9": each number is above 0 and below 100.
Result<std::vector<double>> parse_percentiles(const std::string& text);

// The start of a request's delays.
enum class CountFrom {
  due,   // the planned time: what a user waits, even if the request is held back
  sent,  // the time of sending
};

// Times of an answered request in ms; tpot only if it has two tokens or more.
struct RequestTimes {
  double ttft_ms = 0;
  double e2el_ms = 0;
  std::optional<double> tpot_ms;
};
RequestTimes times_of(const RequestRecord& record, CountFrom from);

struct AdapterFigures {
  std::int32_t adapter = kBaseModel;
  std::int64_t completed = 0;
  std::int64_t failed = 0;
  std::int64_t cold = 0;                // among the completed
  std::optional<double> first_ttft_ms;  // of the adapter's first request, if it was answered
  SampleSpread cold_ttft_ms;
  SampleSpread warm_ttft_ms;
  SampleSpread tpot_ms;
};

struct LoadFigures {
  double duration_s = 0;
  std::int64_t completed = 0;
  std::int64_t failed = 0;
  std::int64_t interrupted = 0;
  std::int64_t unsent = 0;
  std::int64_t input_tokens = 0;  // of the completed, as the next member
  std::int64_t output_tokens = 0;
  std::int64_t good = 0;          // met all objectives; 0 without objectives
  double request_throughput = 0;  // completed per second; the others likewise
  double request_goodput = 0;
  double output_throughput = 0;
  double total_token_throughput = 0;
  double most_output_tokens_per_s = 0;  // maximum over the run's seconds
  std::int64_t most_concurrent = 0;     // requests running at once
  SampleSpread ttft_ms, tpot_ms, itl_ms, e2el_ms;
  SampleSpread cold_ttft_ms, warm_ttft_ms;  // only requests for adapters
  // Time from due to sent. Without a concurrency limit it shows how far this program was behind.
  SampleSpread send_delay_ms;
  std::vector<AdapterFigures> adapters;        // of the adapters with requests, the base first
  std::map<std::string, std::int64_t> errors;  // number of requests by message
};

LoadFigures figures_of(const std::vector<RequestRecord>& records, double duration_s,
                       const Goodput& goodput, CountFrom from);

}  // namespace tandem
