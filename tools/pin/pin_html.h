// A machine, its plan and the engines on it as a page: the output of `tandem pin show --html`.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "cpu_lora/topology/plan/pin_plan.h"
#include "shm/core_claims.h"
#include "tools/pin/pin_commands.h"
#include "tools/report/html_page.h"

namespace tandem {

// The picture coloured by the plans, the plans as text, kinds of cores and quota, and the cores of
// each engine. If `plans` failed, its reason is shown. `engines`: those running on this machine;
// null: the page shows another machine. `command` is the command line that created the page.
HtmlPage pin_page(const PinnedMachine& machine, const Result<std::vector<PinPlan>>& plans,
                  const std::vector<ClaimedCores>* engines, std::string command);

// Writes the page to `path` if that is not empty; with the running engines if it shows this
// machine.
Status write_pin_page(const std::string& path, const PinSettings& settings,
                      const PinnedMachine& machine, const Result<std::vector<PinPlan>>& plans,
                      std::string command);

}  // namespace tandem
