// A run's figures as text, as JSON and as an HTML page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/serve/plan/arrivals.h"
#include "tools/bench/serve/results/load_metrics.h"
#include "tools/report/html_page.h"

namespace tandem {

// The settings of the run that a report states.
struct LoadConditions {
  std::string command;
  std::string url;
  std::string backend;
  std::string model;
  std::string tokenizer;  // "": none
  std::string label;
  std::string dataset;
  double request_rate = kAllAtOnce;
  double burstiness = 1;
  std::int64_t max_concurrency = 0;
  std::int64_t num_prompts = 0;
  Goodput goodput;
  CountFrom count_from = CountFrom::due;
  std::vector<std::string> metrics;  // those to show: ttft, tpot, itl, e2el
  std::vector<double> percentiles;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<std::string> notes;
  std::vector<std::string> adapters;  // names by index
};

struct ServeReport {
  LoadConditions conditions;
  LoadFigures figures;
  std::vector<RequestRecord> records;

  // Tables of figures. Shows at most `most_adapters` adapters, those with most requests.
  std::string text(std::size_t most_adapters = 20) const;
  // The figures under the names of `vllm bench serve`, and additional ones; `detailed` adds each
  // request's times.
  nlohmann::ordered_json to_json(bool detailed) const;
  HtmlPage to_html() const;

  std::string adapter_name(std::int32_t number) const;
};

// Returns "99" for 99, "99.9" for 99.9: the NN of pNN_ttft_ms.
std::string percentile_name(double percent);
// Returns the statistics of "ttft", "tpot", "itl" or "e2el".
const SampleSpread& metric_spread(const LoadFigures& figures, const std::string& metric);
// Returns the full name: "Time to the first token (ttft)".
std::string metric_title(std::string_view metric);
// Returns the adapters with the most requests first.
std::vector<const AdapterFigures*> by_requests(const LoadFigures& figures);

}  // namespace tandem
