// Predictions for a machine: which source is fastest in which case, how many rows its cores can
// handle, and explained plans. Pure functions of a CostModel and a model's shape.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/loader/adapter.h"
#include "engine/profile/profile.h"
#include "scheduler/planning/coldstart/planner.h"

namespace tandem {

// A situation to plan for, as `--explain` takes it.
struct PlanQuestion {
  std::int32_t tokens = 64;  // prompt length of each cold adapter
  std::int32_t rank = 64;
  std::int32_t cold = 1;    // number of cold adapters in the same step
  double link = 0;          // GB/s; 0: the measured speed
  std::int32_t cores = -1;  // workers; -1: the measured number
  double lead_ms = 0;       // how long the loads start before the step
  // GB/s: adapters are read one after another from then on; 0: they are in the host tier.
  double disk = 0;
  std::vector<std::string_view> modules;  // empty: q, k and v
};

// "tokens=64 rank=64 cold=3 link=10 cores=8 lead=1 disk=3 modules=qkv": words in any order; an
// error names the wrong word and the valid ones. modules: qkv, all7, or a list like q,o,down.
Result<PlanQuestion> parse_question(std::string_view text, PlanQuestion defaults = {});

// A ModelSpec with the fields that the planner needs.
ModelSpec shape_of(const ProfileModel& model);

struct PlanAnswer {
  PlanRequest request;
  CostModel costs;  // with the question's link speed
  HandoffPlan planned, waiting, cpu_alone;

  double over_resident(const HandoffPlan& plan) const;  // relative: 0.05
  // The fastest source: "wait" if waiting for all loads is within two percentage points of the
  // plan.
  std::string source() const;
};
PlanAnswer answer(const Profile& profile, const PlanQuestion& question);

// The plan layer by layer, with the times of waiting alone and of the CPU alone.
std::string explain_answer(const Profile& profile, const PlanQuestion& question);

struct MapCell {
  PlanQuestion question;
  double waiting = 0, cpu_alone = 0, planned = 0;  // relative to the resident step
  std::string source;
};
// The cells for tokens x rank x cold adapters x link speed, for q, k and v. The links are the
// measured one and common slower ones.
std::vector<MapCell> plan_map(const Profile& profile, std::int32_t cores,
                              const std::vector<double>& links_gbps);
std::vector<double> map_links(const Profile& profile);
std::string map_text(const std::vector<MapCell>& cells);

// The most rows for which `cores` workers answer a layer (rank 64; q, k, v) before the link
// delivers it; by cores and link.
std::string budget_text(const Profile& profile, const std::vector<double>& links_gbps);

}  // namespace tandem
