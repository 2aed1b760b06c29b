// A run before it runs: which request comes when, for which model, with which prompt. The same
// options and seed give the same plan, whatever server answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "tools/bench/serve/plan/adapter_choice.h"
#include "tools/bench/serve/plan/arrivals.h"
#include "tools/bench/serve/plan/datasets.h"

namespace tandem {

struct PlannedRequest {
  double due_s = 0;                   // from the run's begin
  std::int32_t adapter = kBaseModel;  // of LoadPlan::adapters
  std::int32_t prompt = 0;            // of LoadPlan::prompts
  std::int32_t burst = 0;             // those that come together have the same number
};

struct LoadPlanOptions {
  std::int64_t num_prompts = 1000;
  ArrivalOptions arrivals;
  AdapterChoiceOptions choice;
  std::vector<std::string> adapters;
  NamedNumbers rates;  // each of these has arrivals of its own; instead of a rate for all
  std::uint64_t seed = 0;
};

struct LoadPlan {
  std::vector<PlannedRequest> requests;  // by due_s
  std::vector<std::string> adapters;
  std::vector<LoadPrompt> prompts;
  // No request has a time of its own: one is due when those before are sent and the limit on how
  // many run lets it.
  bool all_at_once = false;
};

// A data set's own times and adapters go first: then options that say otherwise are refused.
Result<LoadPlan> make_load_plan(const LoadPlanOptions& options, Dataset dataset);

}  // namespace tandem
