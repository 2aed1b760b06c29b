// Writes spans to a file that chrome://tracing and ui.perfetto.dev open: events of the trace event
// format, in its array form, whose closing bracket may be missing. So the file of a killed process
// can be opened too.
//
// Times are from the machine's monotonic clock, in microseconds, so that files of several processes
// on one machine share a time axis.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "base/trace/span.h"

namespace tandem {

// Appends the span's events, each preceded by `separator`; one per line.
void append_chrome_events(std::string& out, const Span& span, int pid, std::string_view separator);

// For use by one thread.
class ChromeTraceFile {
 public:
  // Replaces an existing file. `max_bytes` limits the total size: at half of it the file is renamed
  // to FILE.1, replacing an older one, and restarted. `process` identifies the process to readers.
  static Result<std::unique_ptr<ChromeTraceFile>> create(const std::filesystem::path& path,
                                                         std::uint64_t max_bytes,
                                                         std::string process);
  ~ChromeTraceFile();  // closes the array
  ChromeTraceFile(const ChromeTraceFile&) = delete;
  ChromeTraceFile& operator=(const ChromeTraceFile&) = delete;

  // Writes whole events. A failure (a full disk) is reported once; after it nothing more is
  // written, and the file is left complete.
  Status write(std::span<const Span> spans);

 private:
  ChromeTraceFile(std::filesystem::path path, std::uint64_t max_bytes, std::string process);
  Status begin();
  Status append(const std::string& text);
  void end();
  void name_lane(const Span& span, std::string& out);

  const std::filesystem::path path_;
  const std::uint64_t max_bytes_;
  const std::string process_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
  std::uint64_t named_lanes_ = 0;  // one bit per lane, for this file
};

}  // namespace tandem
