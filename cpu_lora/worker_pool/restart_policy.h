// When a worker that died is started again, and when no more.
#pragma once

#include <algorithm>
#include <optional>

#include "base/clock.h"

namespace tandem {

struct RestartOptions {
  Duration first_pause{};
  Duration last_pause{};
  Duration healthy_life{};  // who lived for so long begins anew
  int max_deaths = 1;       // in a row
};

// One worker's. No clock: the caller says how long a life was.
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
