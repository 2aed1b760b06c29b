// What a machine is good for, by prediction: which source wins where, how many rows its cores take,
// and plans explained. Pure functions of a CostModel and a model's shape.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/loader/adapter.h"
#include "engine/profile/profile.h"
#include "scheduler/coldstart/planner.h"

namespace tandem {

// A situation to plan for, as `--explain` takes it.
struct PlanQuestion {
  std::int32_t tokens = 64;  // of each cold adapter's prompt
  std::int32_t rank = 64;
  std::int32_t cold = 1;        // adapters that are cold together
  double link = 0;              // GB/s; 0: as measured
  std::int32_t cores = -1;      // workers; -1: as measured
  double lead_ms = 0;           // the loads' start before the step's
  double disk = 0;              // GB/s: read one after another, from then on; 0: in the host tier
  std::vector<Module> modules;  // empty: q, k and v
};

// "tokens=64 rank=64 cold=3 link=10 cores=8 lead=1 disk=3 modules=qkv": words in any order; the
// message names the word and the known ones. modules: qkv, all7, or a list as in q,o,down.
Result<PlanQuestion> parse_question(std::string_view text, PlanQuestion defaults = {});

// A ModelSpec with what the planner needs of it.
ModelSpec shape_of(const ProfileModel& model);

struct PlanAnswer {
  PlanRequest request;
  CostModel costs;  // with the question's link
  HandoffPlan planned, waiting, cpu_alone;

  double over_resident(const HandoffPlan& plan) const;  // share: 0.05
  // Who wins: "wait" when waiting for all is within two points of the plan.
  std::string source() const;
};
PlanAnswer answer(const Profile& profile, const PlanQuestion& question);

// The answer layer by layer, with what waiting and the CPU alone would take.
std::string explain_answer(const Profile& profile, const PlanQuestion& question);

struct MapCell {
  PlanQuestion question;
  double waiting = 0, cpu_alone = 0, planned = 0;  // over the resident step
  std::string source;
};
// tokens x rank x cold adapters x link speed, q, k and v. The links: the measured one, and slower
// ones that people have.
std::vector<MapCell> plan_map(const Profile& profile, std::int32_t cores,
                              const std::vector<double>& links_gbps);
std::vector<double> map_links(const Profile& profile);
std::string map_text(const std::vector<MapCell>& cells);

// Up to how many rows `cores` workers answer a layer (rank 64; q, k, v) sooner than the link
// brings it; by cores and link.
std::string budget_text(const Profile& profile, const std::vector<double>& links_gbps);

}  // namespace tandem
