// Makes a measured run from settings: connects to the server, reads its models, and prepares
// tokenizer and prompts.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tools/bench/serve/load_run.h"
#include "tools/bench/serve/results/serve_report.h"
#include "tools/bench/serve/serve_bench_settings.h"

namespace tandem {

class ServeSession {
 public:
  // Asks the server for its models. `command`: the command line, for reports. `stopped`: called
  // about ten times a second; true if the user wants to stop.
  static Result<ServeSession> create(const ServeBenchSettings& settings, std::string command,
                                     std::function<bool()> stopped);

  // Makes one run at this rate and limit, after the warm-ups; `what` is put before the progress
  // line. `number` changes the seed, so that the runs of a sweep have different prompts, because
  // servers cache prompts' prefixes.
  Result<ServeReport> measure(double request_rate, std::int64_t max_concurrency,
                              const std::string& what, std::int64_t number);
  bool stopped() const { return stopped_(); }

 private:
  ServeSession(const ServeBenchSettings& settings, std::string command,
               std::function<bool()> stopped, PromptMaker maker);

  Status find_models();
  LoadRunOptions run_options(std::int64_t max_concurrency) const;
  Status warm_up(const LoadPlan& plan);
  LoadConditions conditions(double request_rate, std::int64_t max_concurrency,
                            const LoadPlan& plan) const;

  ServeBenchSettings settings_;
  std::string command_;
  std::function<bool()> stopped_;
  PromptMaker maker_;
  LoadTarget target_;
  BodyOptions body_;
  std::string model_;  // the base's name in requests
  std::string tokenizer_dir_;
  Goodput goodput_;
  std::vector<double> percentiles_;
  std::vector<std::string> metrics_;
  NamedNumbers mix_, rates_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

}  // namespace tandem
