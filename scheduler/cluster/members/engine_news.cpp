#include "scheduler/cluster/members/engine_news.h"

#include "base/log/log.h"

namespace tandem {

void EngineNews::log_change(const EngineState& after) const {
  if (!was_up_) {
    log::info("{}: the engine serves '{}' (id {})", after.address.text(), after.report.model,
              after.report.id);
  }
  if (after.report.draining && !drained_) {
    log::info("{}: the engine is draining and gets no new requests", after.address.text());
  }
}

}  // namespace tandem
