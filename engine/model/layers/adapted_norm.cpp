#include "engine/model/layers/adapted_norm.h"

#include "engine/model/layers/adapted_linear.h"

namespace tandem {

bool is_replaced(const LayerStep& step, const AdaptedNorm& norm) {
  return norm.is_there() && adapts(step, norm.site);
}

void run(LayerStep& step, const AdaptedNorm& norm, RmsNormArgs args, const std::int32_t* slots) {
  args.weight = norm.weight;
  if (is_replaced(step, norm)) {
    const LoraModules modules = modules_at(step, norm.layer, norm.site);
    args.own = {modules.table + norm.module, modules.slot_stride, modules.pages,
                slots == nullptr ? step.input.row_slots : slots};
  }
  step.stream.rms_norm(args);
}

}  // namespace tandem
