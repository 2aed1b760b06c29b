// How far a run is: a line that is written over on a terminal, one now and then in a log.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "tools/bench/serve/load_run.h"

namespace tandem {

// "12.0 s  sent 108 of 500  running 7  answered 101  failed 0  8.4/s  537 tokens/s  ttft 41 ms"
std::string progress_text(const LoadState& state, std::int64_t all);

class ServeProgress {
 public:
  // `what`: before the line, may be empty. Writes to standard error.
  ServeProgress(std::string what, std::int64_t all, bool terminal);
  ~ServeProgress();  // takes the line away
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
