// Spans as a file that chrome://tracing and ui.perfetto.dev open: events of the trace event format,
// in its array form, whose closing bracket may be missing. So what a process that was killed has
// left opens, too.
//
// Times are those of the machine's monotonic clock, in microseconds: files of several processes of
// one machine lie on one clock.
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

// The span's events, each behind `separator`; one on a line.
void append_chrome_events(std::string& out, const Span& span, int pid, std::string_view separator);

// One thread.
class ChromeTraceFile {
 public:
  // Replaces what is there. `max_bytes` bounds what is kept: at half of that the file is renamed to
  // FILE.1, in the place of an older one, and begun anew. `process`: who it is, for the reader.
  static Result<std::unique_ptr<ChromeTraceFile>> create(const std::filesystem::path& path,
                                                         std::uint64_t max_bytes,
                                                         std::string process);
  ~ChromeTraceFile();  // closes the array
  ChromeTraceFile(const ChromeTraceFile&) = delete;
  ChromeTraceFile& operator=(const ChromeTraceFile&) = delete;

  // Writes whole events. A failure (a full disk) is told once; nothing is written from then on, and
  // what was is whole.
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
  std::uint64_t named_lanes_ = 0;  // a bit each, of this file
};

}  // namespace tandem
