#include "engine/batching/line/sequence_life.h"

#include "base/check.h"

namespace tandem {

SequenceLife::SequenceLife(const RequestContext& context, std::int32_t index, std::uint64_t arrival)
    : context_(&context), index_(index), arrival_(arrival) {
  if (auto* count = count_of(state_)) count->fetch_add(1, std::memory_order_relaxed);
}

SequenceLife::~SequenceLife() {
  if (has_ended()) return;
  if (auto* count = count_of(state_)) count->fetch_sub(1, std::memory_order_relaxed);
  context_->state->lose(index_);
}

void SequenceLife::change(LifeEvent event) {
  const std::optional<Lifecycle> after = next(state_, event);
  TANDEM_CHECK(after.has_value(), "sequence {}: {} while it is {}", arrival_, to_string(event),
               to_string(state_));
  std::atomic<std::int32_t>* const old_count = count_of(state_);
  std::atomic<std::int32_t>* const new_count = count_of(*after);
  state_ = *after;
  if (old_count == new_count) return;
  if (old_count != nullptr) old_count->fetch_sub(1, std::memory_order_relaxed);
  if (new_count != nullptr) new_count->fetch_add(1, std::memory_order_relaxed);
}

// Its adapter's count of the sequences in this state; null: there is none.
std::atomic<std::int32_t>* SequenceLife::count_of(Lifecycle state) const {
  ServedAdapter* const adapter = context_->adapter.get();
  if (adapter == nullptr || state == Lifecycle::ended) return nullptr;
  return tandem::has_begun(state) ? &adapter->running : &adapter->waiting;
}

}  // namespace tandem
