// Adapters of which all that came was refused: what is wrong with them may be this engine's own
// (another base, too little memory), and would be so with the next copy, too.
#pragma once

#include <map>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace tandem {

// By digest. For one thread at a time.
class FetchBackOff {
 public:
  // It is not fetched for 3 s from now on; for twice as long as the last time, up to 5 min, when it
  // fails again.
  void failed(const std::string& digest, const Status& why, TimePoint now);
  void succeeded(const std::string& digest) { held_.erase(digest); }
  // Ok: it may be fetched. Else what failed() was told.
  Status refusal(const std::string& digest, TimePoint now) const;

 private:
  struct Held {
    Status why;
    Duration wait{};
    TimePoint until;
  };
  std::map<std::string, Held> held_;
};

}  // namespace tandem
