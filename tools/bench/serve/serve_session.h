// From settings to a measured run: the server, the models that it lists, the tokenizer, the
// prompts.
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
  // Asks the server what it serves. `command`: what was typed, for reports. `stopped`: the user has
  // had enough; asked some ten times a second.
  static Result<ServeSession> create(const ServeBenchSettings& settings, std::string command,
                                     std::function<bool()> stopped);

  // One run at this rate and limit, the warm-ups first; `what` is before the progress line.
  // `number` goes to the seed: runs of a sweep have prompts of their own, as servers keep prompts'
  // prefixes.
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
  std::string model_;  // the base's name, as it is asked for
  std::string tokenizer_dir_;
  Goodput goodput_;
  std::vector<double> percentiles_;
  std::vector<std::string> metrics_;
  NamedNumbers mix_, rates_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

}  // namespace tandem
