#include "engine/batching/batch/admission.h"

namespace tandem {

std::int32_t Admission::take_pages(Sequence& sequence, const StepDraft& step, bool alone) {
  std::int32_t rows = 0;
  try {
    rows = reserve(sequence, step, alone);
  } catch (...) {
    give_up(sequence);
    throw;
  }
  if (rows == 0) {
    give_up(sequence);
    return 0;
  }
  prefixes_->note_found(sequence);
  if (gate_ != nullptr) gate_->begins(sequence);
  return rows;
}

std::int32_t Admission::reserve(Sequence& sequence, const StepDraft& step, bool alone) const {
  sequence.pages.rotate_by(rotary_.of(sequence.tokens.prompt_len(), sequence.tokens.size()));
  prefixes_->find(sequence);
  const std::int32_t rows = step.rows_for(sequence);
  if (rows == 0) return 0;
  // The whole prompt must fit now, though only a chunk of it is reserved: a sequence admitted into
  // the last pages would be the first to be preempted. While others run, one more page of each
  // group is left for their next tokens.
  if (!alone) {
    const PoolShape& shape = pool_->shape();
    const std::int64_t missing =
        shape.pages_for(sequence.tokens.size()) - sequence.pages.table().num_held();
    if (missing + shape.groups.count() > pool_->available_pages()) return 0;
  }
  return sequence.pages.reserve(sequence.computed() + rows) ? rows : 0;
}

void Admission::give_up(Sequence& sequence) {
  if (gate_ != nullptr) gate_->leave(sequence);
  sequence.pages.give_back();
}

void Admission::leave(Sequence& sequence) {
  if (gate_ != nullptr) gate_->leave(sequence);
  sequence.pages.free();
}

}  // namespace tandem
