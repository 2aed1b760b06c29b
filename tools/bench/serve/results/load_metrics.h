// What a run's records come to. No input or output: the same records give the same figures.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "tools/bench/serve/results/request_record.h"

namespace tandem {

// Sorted samples and what is told of them; percentiles between samples are interpolated, and the
// deviation is the samples' own, as numpy does both.
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

// The objectives of `--goodput ttft:200 tpot:50 e2el:5000`, in ms.
struct Goodput {
  std::optional<double> ttft_ms, tpot_ms, e2el_ms;
  bool empty() const { return !ttft_ms && !tpot_ms && !e2el_ms; }
};
Result<Goodput> parse_goodput(const std::vector<std::string>& texts);

// "50,90,99.9": each above 0 and below 100.
Result<std::vector<double>> parse_percentiles(const std::string& text);

// From when a request's delays count.
enum class CountFrom {
  due,   // when the plan sends it: what a user waits, also while a limit or this program holds it
  sent,  // when it left
};

// Of one request that was answered, in ms; tpot only with two tokens or more.
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
  std::int64_t cold = 0;                // of those completed
  std::optional<double> first_ttft_ms;  // of the first request for it, if that was answered
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
  std::int64_t input_tokens = 0;  // of those completed, as the next
  std::int64_t output_tokens = 0;
  std::int64_t good = 0;          // that met all objectives; 0 without any
  double request_throughput = 0;  // completed a second; the others likewise
  double request_goodput = 0;
  double output_throughput = 0;
  double total_token_throughput = 0;
  double most_output_tokens_per_s = 0;  // in any of the run's seconds
  std::int64_t most_concurrent = 0;     // requests under way at once
  SampleSpread ttft_ms, tpot_ms, itl_ms, e2el_ms;
  SampleSpread cold_ttft_ms, warm_ttft_ms;  // of requests for adapters
  // From due to sent. Where no limit held them: how far this program was behind.
  SampleSpread send_delay_ms;
  std::vector<AdapterFigures> adapters;        // those asked for, the base first
  std::map<std::string, std::int64_t> errors;  // how often each came
};

LoadFigures figures_of(const std::vector<RequestRecord>& records, double duration_s,
                       const Goodput& goodput, CountFrom from);

}  // namespace tandem
