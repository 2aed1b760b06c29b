#include "tools/report/report_origin.h"

#include <fmt/format.h>

#include <utility>

#include "base/threads/thread_cpus.h"
#include "tools/cli/machine.h"
#include "tools/cli/version.h"

namespace tandem {

ReportOrigin origin_here(std::string command) {
  const std::size_t cores = cpus_of_thread().size();
  return {std::move(command), build_commit(),
          fmt::format("{}, {} usable core{}", cpu_name(), cores, cores == 1 ? "" : "s"), utc_now()};
}

}  // namespace tandem
