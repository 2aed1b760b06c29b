// Decides when a worker that died is started again, and when it is given up.
#pragma once

#include <algorithm>
#include <optional>

#include "base/clock.h"

namespace tandem {

struct RestartOptions {
  Duration first_pause{};
  Duration last_pause{};
  Duration healthy_life{};  // a worker that lived this long starts with a count of zero again
  int max_deaths = 1;       // in a row
};

// The policy of one worker. It reads no clock: the caller passes how long the worker lived.
class RestartPolicy {
 public:
  explicit RestartPolicy(const RestartOptions& options) : options_(options) {}

  // The pause before the next start; nullopt: it has died too often.
  std::optional<Duration> on_death(Duration life) {
    if (life >= options_.healthy_life) deaths_ = 0;
    pause_ = deaths_ == 0 ? options_.first_pause : std::min(2 * pause_, options_.last_pause);
    if (++deaths_ >= options_.max_deaths) return std::nullopt;
    return pause_;
  }

  int deaths() const { return deaths_; }  // in a row

 private:
  RestartOptions options_;
  Duration pause_{};
  int deaths_ = 0;
};

}  // namespace tandem
