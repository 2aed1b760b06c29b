// A machine, its plan and who computes on it, as a page: what `tandem pin show --html` writes.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "cpu_lora/topology/pin_plan.h"
#include "shm/core_claims.h"
#include "tools/pin/pin_commands.h"
#include "tools/report/html_page.h"

namespace tandem {

// The picture coloured by the plans, these in words, kinds of cores and quota, and which engine has
// which cores. `plans` failed: its reason stands there. `engines`: those that run on this machine;
// null: another machine is shown. `command` wrote it.
HtmlPage pin_page(const PinnedMachine& machine, const Result<std::vector<PinPlan>>& plans,
                  const std::vector<ClaimedCores>* engines, std::string command);

// Writes it into `path`, if that is not empty, with the engines that run if this machine is meant.
Status write_pin_page(const std::string& path, const PinSettings& settings,
                      const PinnedMachine& machine, const Result<std::vector<PinPlan>>& plans,
                      std::string command);

}  // namespace tandem
