// A run's plan: for each request its time, model and prompt. Equal options and seeds give equal
// plans, independent of the server.
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
  double due_s = 0;                   // from the run's start
  std::int32_t adapter = kBaseModel;  // index in LoadPlan::adapters
  std::int32_t prompt = 0;            // index in LoadPlan::prompts
  std::int32_t burst = 0;             // the same number for requests that come together
};

struct LoadPlanOptions {
  std::int64_t num_prompts = 1000;
  ArrivalOptions arrivals;
  AdapterChoiceOptions choice;
  std::vector<std::string> adapters;
  NamedNumbers rates;  // own arrivals for each of these adapters; replaces a common rate
  std::uint64_t seed = 0;
};

struct LoadPlan {
  std::vector<PlannedRequest> requests;  // in the order of due_s
  std::vector<std::string> adapters;
  std::vector<LoadPrompt> prompts;
  // Requests have no times: each one is due when all before it are sent and max_concurrency allows
  // it.
  bool all_at_once = false;
};

// Times and adapters of the data set come first: options that contradict them are refused.
Result<LoadPlan> make_load_plan(const LoadPlanOptions& options, Dataset dataset);

}  // namespace tandem
