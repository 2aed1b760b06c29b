// The options for handing rows of cold adapters to CPU workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cpu_lora/topology/plan/reader_plan.h"
#include "cpu_lora/worker_pool/worker_pool.h"
#include "engine/adapters/cold_start_log.h"
#include "scheduler/planning/coldstart/engine_lessons.h"
#include "scheduler/planning/coldstart/planner.h"
#include "scheduler/planning/costs/cost_model.h"

namespace tandem {

struct HandoffOptions {
  // The workers of one NUMA node, with a mailbox and an arena of the host tier: they compute the
  // adapters in that arena.
  struct Group {
    int node = -1;
    std::vector<int> cpus;       // one worker for each
    int spare_worker_slots = 0;  // for workers that another process starts (`tandem pin apply`)
  };
  std::vector<Group> groups;            // empty: nothing is handed over
  std::int32_t max_rows = 512;          // of one step
  std::uint32_t deadline_us = 200'000;  // the longest wait for workers
  // How long workers spin without work. They stay awake from one cold start to the next if those
  // are frequent, because an idle core of a virtual machine may take milliseconds to wake up
  // (docs/cold-start.md).
  double spin_ms = 1000;
  CostModel costs;
  EngineLessons lessons;  // lessons that earlier engines have learnt
  // Null: plan_handoff(), except where its plans have lost before (PlanMemory). Tests and
  // measurements put another planner here.
  using Planner = std::function<HandoffPlan(const CostModel& costs, const PlanRequest& request)>;
  Planner plan;
  ColdStartLog* cold_starts = nullptr;  // records the steps; outlives the handoff
  // For the control region: the served name, and the cores of the engine itself.
  std::string model_name;
  std::vector<int> engine_cpus;
  // The cores of the threads that read adapters from disk; `beside` is by group. While they read,
  // workers on these cores get no jobs, nor do workers that another process has started.
  ReaderPlan readers;
  // Chooses new cores for the workers when the process's allowed cores have changed, as
  // WorkerPoolOptions::place; null: the workers stay. Called by the pool's thread.
  std::function<WorkerPoolOptions::CpusOfGroups(const WorkerPoolOptions::CpusOfGroups& now,
                                                const std::vector<int>& allowed)>
      place;
  // WorkerPool::start, or a test's replacement.
  using StartWorkers =
      std::function<Result<std::unique_ptr<WorkerPool>>(const WorkerPoolOptions& options)>;
  StartWorkers start_workers;
};

}  // namespace tandem
