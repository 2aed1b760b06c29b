// How an engine hands rows of cold adapters to CPU workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cpu_lora/topology/reader_plan.h"
#include "cpu_lora/worker_pool/worker_pool.h"
#include "engine/adapters/cold_start_log.h"
#include "engine/service/engine_defaults.h"
#include "scheduler/coldstart/engine_lessons.h"
#include "scheduler/coldstart/planner.h"
#include "scheduler/costs/cost_model.h"

namespace tandem {

struct HandoffOptions {
  // Workers of one NUMA node, a mailbox for them and an arena of the host tier: they compute the
  // adapters whose weights lie there.
  struct Group {
    int node = -1;
    std::vector<int> cpus;       // a worker for each
    int spare_worker_slots = 0;  // for workers that somebody else starts (`tandem pin apply`)
  };
  std::vector<Group> groups;                                // none: nothing is handed over
  std::int32_t max_rows = engine_defaults::kHandoffTokens;  // of one step
  std::uint32_t deadline_us =
      1000 * static_cast<std::uint32_t>(engine_defaults::kHandoffDeadlineMs);
  double spin_ms = engine_defaults::kWorkerSpinMs;
  CostModel costs;
  EngineLessons lessons;  // what engines before this one have learnt of them
  // Null: plan_handoff(), but where its plans were seen to lose (PlanMemory); or what a test, or a
  // measurement, puts in its place.
  using Planner = std::function<HandoffPlan(const CostModel& costs, const PlanRequest& request)>;
  Planner plan;
  ColdStartLog* cold_starts = nullptr;  // is told of steps; outlives the handoff
  // For the control region: the served name, and the cores that are the engine's own.
  std::string model_name;
  std::vector<int> engine_cpus;
  // Of who reads adapters from disk, `beside` by group. While they read, workers beside readers are
  // handed nothing, nor are those that somebody else has started.
  ReaderPlan readers;
  // Where workers go when what the process may run on has changed, as WorkerPoolOptions has it;
  // null: they stay. Called by the pool's thread.
  std::function<WorkerPoolOptions::CpusOfGroups(const WorkerPoolOptions::CpusOfGroups& now,
                                                const std::vector<int>& allowed)>
      place;
  // WorkerPool::start, or what a test puts in its place.
  using StartWorkers =
      std::function<Result<std::unique_ptr<WorkerPool>>(const WorkerPoolOptions& options)>;
  StartWorkers start_workers;
};

}  // namespace tandem
