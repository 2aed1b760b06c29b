#include "engine/loader/peft/peft_score.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/loader/safetensors/safetensors_header.h"

namespace tandem {

Result<std::shared_ptr<const ScoreHead>> read_peft_score(const TensorInfo* info,
                                                         const PeftConfig& peft,
                                                         const ModelSpec& spec, const File& file) {
  if (info == nullptr) {
    if (std::ranges::find(peft.saved, kScoreModule) == peft.saved.end()) {
      return std::shared_ptr<const ScoreHead>();
    }
    return invalid("{} is saved according to adapter_config.json, but its weight is missing",
                   kScoreModule);
  }
  const std::vector<std::int64_t>& shape = info->shape;
  if (shape.size() != 2 || shape[0] < 1 || shape[0] > kMaxLabels || shape[1] != spec.hidden_size) {
    return invalid("the weight of {} is {}; it must be [labels, {}], with 1 to {} labels",
                   kScoreModule, to_string(*info), spec.hidden_size, kMaxLabels);
  }
  if (!info->dtype || *info->dtype == DType::i32) {
    return invalid("the weight of {} is {}; it must be F32, F16 or BF16", kScoreModule,
                   to_string(*info));
  }
  auto head = std::make_shared<ScoreHead>();
  head->labels = shape[0];
  head->weight.resize(static_cast<std::size_t>(shape[0] * shape[1]));
  std::vector<std::byte> raw(head->weight.size() * size_of(*info->dtype));
  TANDEM_TRY(file.read(info->begin, raw.data(), raw.size()));
  convert(*info->dtype, raw.data(), DType::f32, head->weight.data(), head->weight.size());
  if (!head->is_finite()) {
    return invalid("the weight of {} holds a NaN or an infinity", kScoreModule);
  }
  return std::shared_ptr<const ScoreHead>(std::move(head));
}

}  // namespace tandem
