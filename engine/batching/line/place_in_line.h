// A sequence as the waiting line sees it. Everybody may read it; only WaitingLine writes it.
#pragma once

#include <cstdint>

#include "scheduler/planning/queue/fair_share.h"
#include "scheduler/planning/queue/queue_order.h"

namespace tandem {

class PlaceInLine {
 public:
  PlaceInLine() = default;
  PlaceInLine(const PlaceInLine&) = delete;
  PlaceInLine& operator=(const PlaceInLine&) = delete;

  const QueueEntry& entry() const { return entry_; }
  // Its turn from the last arrange(); 0: only priority and arrival decide.
  std::uint32_t turn() const { return turn_; }
  // Its tenant, if one is charged, has been served these tokens.
  void charge_output(std::int64_t tokens) const {
    if (entry_.tenant != nullptr) FairShare::charge_output(*entry_.tenant, tokens);
  }

 private:
  friend class WaitingLine;
  QueueEntry entry_;
  TenantStay stay_;  // its tenant's count of it
  std::uint32_t turn_ = 0;
};

}  // namespace tandem
