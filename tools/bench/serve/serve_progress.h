// Progress of a run: a line that redraws itself on a terminal, or a line now and then in a log.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "tools/bench/serve/load_run.h"

namespace tandem {

// Example: "12.0 s  sent 108 of 500  running 7  answered 101  failed 0  8.4/s  ...".
std::string progress_text(const LoadState& state, std::int64_t all);

class ServeProgress {
 public:
  // `what`: text before the line, may be empty. Writes to standard error.
  ServeProgress(std::string what, std::int64_t all, bool terminal);
  ~ServeProgress();  // erases the line
  ServeProgress(const ServeProgress&) = delete;
  ServeProgress& operator=(const ServeProgress&) = delete;

  void update(const LoadState& state);

 private:
  std::string what_;
  std::int64_t all_;
  bool terminal_;
  bool drawn_ = false;
  double last_s_ = 0;
};

}  // namespace tandem
