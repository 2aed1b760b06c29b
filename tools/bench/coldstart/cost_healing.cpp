#include "tools/bench/coldstart/cost_healing.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/log/log.h"
#include "tools/bench/coldstart/cold_engine.h"
#include "tools/bench/measure/bench_trace.h"
#include "tools/setup/handoff_setup.h"

namespace tandem {
namespace {

constexpr double kErrors[] = {3, 1.0 / 3};
// The total number of cold starts at the end of each stage. N2 is judged on the last stage.
constexpr std::int32_t kStages[] = {10, 25, 50, 120};
// The cold starts of the last stage, which is the longest.
constexpr std::int32_t kMostAtOnce = kStages[3] - kStages[2];
constexpr std::uint64_t kRemembered = 64;  // steps in the engine's median
constexpr double kBar = 10;                // %

std::string name_of(double cost_error) {
  return cost_error > 1 ? fmt::format("{:g} times too long", cost_error)
                        : fmt::format("{:g} times too short", 1 / cost_error);
}

EngineSettings settings_for(const EngineSettings& settings, const ColdStartOptions& options,
                            const ColdAdapters& adapters, double cost_error) {
  EngineSettings with = settings;
  with.options.adapter_mode = AdapterMode::planned;
  with.calibrate = false;
  with.cost_error = cost_error;
  if (with.link_gbps == 0) with.link_gbps = options.slow_link_gbps;
  with.host_tier_gb =
      static_cast<double>(adapters.host_tier_bytes(kMostAtOnce, options.rank)) / 1e9;
  with.options.max_device_adapters = std::max(with.options.max_device_adapters, kMostAtOnce);
  return with;
}

// The number of workers that the engine will start.
Result<std::int32_t> workers_of(const EngineSettings& settings, const EngineSetup& setup) {
  TANDEM_ASSIGN(const HandoffOptions handoff,
                choose_handoff(settings, setup.spec, setup.dtype, setup.devices.front()->info(),
                               setup.model_name, setup.cores.plan));
  std::size_t workers = 0;
  for (const HandoffOptions::Group& group : handoff.groups) workers += group.cpus.size();
  return static_cast<std::int32_t>(workers);
}

Result<HealingStage> run_stage(ColdEngine& engine, const ColdStartOptions& options,
                               std::int32_t starts, std::uint64_t seed) {
  TANDEM_ASSIGN(const auto names, engine.add(starts, options.rank));
  const EngineStats before = engine.engine().stats();
  TANDEM_ASSIGN([[maybe_unused]] const AnsweredTrace answered,
                engine.run(poisson_trace(names, options.rate, options.lengths, seed), seed + 1));
  const EngineStats after = engine.engine().stats();
  TANDEM_TRY(engine.clear());
  HealingStage stage;
  stage.steps = after.handoff_steps - before.handoff_steps;
  stage.planned_s = after.handoff_planned_seconds - before.handoff_planned_seconds;
  stage.taken_s = after.handoff_actual_seconds - before.handoff_actual_seconds;
  stage.median_error = after.handoff_plan_error;
  return stage;
}

}  // namespace

Result<std::vector<CostHealing>> run_healing(const EngineSettings& settings,
                                             const ColdStartOptions& options,
                                             ColdAdapters& adapters) {
  std::vector<CostHealing> healings;
  for (const double cost_error : kErrors) {
    log::info("{} cold starts from figures that are {}", kStages[std::size(kStages) - 1],
              name_of(cost_error));
    CostHealing& healing = healings.emplace_back();
    healing.cost_error = cost_error;
    const EngineSettings with = settings_for(settings, options, adapters, cost_error);
    TANDEM_ASSIGN(const auto engine, ColdEngine::start(with, adapters));
    TANDEM_ASSIGN(const std::int32_t workers, workers_of(with, engine->setup()));
    if (engine->wait_for_workers(workers) == 0) continue;
    TANDEM_TRY(engine->warm_up(options.rank));
    std::int32_t before = 0;
    for (const std::int32_t starts : kStages) {
      const auto seed = 300 + 2 * static_cast<std::uint64_t>(starts);
      TANDEM_ASSIGN(HealingStage stage, run_stage(*engine, options, starts - before, seed));
      stage.starts = before = starts;
      healing.stages.push_back(stage);
    }
  }
  return healings;
}

void report_healing(const std::vector<CostHealing>& healings, BenchReport& report) {
  ReportTable table;
  table.title = "Cold starts from figures that are wrong on purpose";
  table.head = {"figures",     "cold starts", "steps with workers",
                "planned, ms", "taken, ms",   "median error, %"};
  double worst = 0;
  std::uint64_t fewest = kRemembered;
  for (const CostHealing& healing : healings) {
    for (const HealingStage& stage : healing.stages) {
      const double steps = std::max<double>(1, static_cast<double>(stage.steps));
      table.rows.push_back({name_of(healing.cost_error), stage.starts, stage.steps,
                            stage.planned_s / steps * 1e3, stage.taken_s / steps * 1e3,
                            stage.median_error * 100});
    }
    if (healing.stages.empty()) {
      report.fact("N2", "not judged: there are no CPU workers");
      return;
    }
    fewest = std::min(fewest, healing.stages.back().steps);
    worst = std::max(worst, healing.stages.back().median_error * 100);
  }
  report.add(std::move(table));
  if (fewest < kRemembered) {
    report.fact("N2", fmt::format("not judged: workers had {} steps of the last {} cold starts, {} "
                                  "are needed; a slower link has more (slow_gbps)",
                                  fewest, kMostAtOnce, kRemembered));
    return;
  }
  report.add({"N2",
              fmt::format("plans of cold steps after 50 cold starts, figures wrong by a factor of "
                          "{:g}: median error",
                          kErrors[0]),
              worst, "%", Must::be_at_most, kBar});
}

}  // namespace tandem
