// Back-off for adapters whose copies were all refused. The cause may be this engine's own (another
// base, too little memory) and would then apply to the next copy, too.
#pragma once

#include <map>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace tandem {

// Keyed by digest. Not thread-safe.
class FetchBackOff {
 public:
  // Blocks fetches of the adapter for 3 s from `now`; after repeated failures for twice as long as
  // the last time, up to 5 min.
  void failed(const std::string& digest, const Status& why, TimePoint now);
  void succeeded(const std::string& digest) { held_.erase(digest); }
  // Ok if the adapter may be fetched, else the status that was passed to failed().
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
