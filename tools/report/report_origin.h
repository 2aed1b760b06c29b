// Where a report's figures are from: every report says it.
#pragma once

#include <string>

namespace tandem {

struct ReportOrigin {
  std::string command;  // what was typed
  std::string commit;
  std::string machine;  // "Intel(R) Xeon(R) ..., 12 usable cores"
  std::string date;     // "2026-11-23T20:15:00Z"
};

// Of this program, on this machine, now.
ReportOrigin origin_here(std::string command);

}  // namespace tandem
