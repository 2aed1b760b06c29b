// The origin of a report's figures, which every report states.
#pragma once

#include <string>

namespace tandem {

struct ReportOrigin {
  std::string command;  // as it was typed
  std::string commit;
  std::string machine;  // "Intel(R) Xeon(R) ..., 12 usable cores"
  std::string date;     // "2026-11-23T20:15:00Z"
};

// Returns the origin for this program on this machine at this moment.
ReportOrigin origin_here(std::string command);

}  // namespace tandem
