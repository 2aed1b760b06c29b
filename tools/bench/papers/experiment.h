// One experiment of the four papers, repeated here: what the paper shows, and a function that runs
// it on this machine's device, in simulated time, or by counting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "scheduler/cluster/simulator/azure_trace.h"
#include "tools/report/plot.h"

namespace tandem {
struct EngineSettings;
}

namespace tandem::papers {

enum class Verdict {
  shown,      // the figures of this run go in the direction of the claim
  not_shown,  // they do not
  measured,   // a time on this machine: printed, not judged
  not_run,    // nothing was measured
};
std::string_view to_string(Verdict verdict);

// Where an experiment's figures come from.
enum class Ground {
  simulated,  // scheduler/cluster/simulator: the same on every machine
  counted,    // bytes, copies, requests: the same on every machine
  device,     // wall time on a device or on CPU cores of this machine
};
std::string_view to_string(Ground ground);

struct Findings {
  Verdict verdict = Verdict::not_run;
  std::string here;  // the main figures of this run in one line; empty: not run
  std::string
      why;  // the reason if the verdict is not_shown or not_run; else what differs, or empty
  std::vector<PlotSeries> series;  // in the axes of the paper's figure; may be empty

  void add(std::string_view name, double x, double y);  // a point of the series with this name
  double at(std::string_view name, double x) const;     // requires a point there
  // `why_not` is kept if the claim is not shown.
  void judge(bool shown, std::string why_not);
};

// Experiments run with these settings.
struct PapersBench {
  bool quick = false;                 // small shapes and short simulations
  const EngineSettings& engine;       // device, and the shape of the model
  const AzureTrace* trace = nullptr;  // calls of real functions; null: their published skew
  const Clock& clock;
};

struct Experiment {
  std::string_view id;       // "s-lora-9"
  std::string_view figure;   // "S-LoRA, figure 9"
  std::string_view claim;    // what the figure shows
  std::string_view setting;  // the paper's
  std::string_view theirs;   // the paper's figure and machine
  Ground ground = Ground::simulated;
  std::string_view how;  // how it runs here, and what differs from the paper
  std::string_view x_label, y_label;
  // Null: this machine cannot run it; `how` is the reason.
  Result<Findings> (*run)(const PapersBench& bench) = nullptr;
  bool log_x = false;
};

// All experiments, paper by paper. Ids are unique.
const std::vector<Experiment>& experiments();

// The rows of one paper each, which experiments() joins.
std::vector<Experiment> punica_experiments();
std::vector<Experiment> s_lora_experiments();
std::vector<Experiment> caraserve_experiments();
std::vector<Experiment> essay_experiments();

}  // namespace tandem::papers
