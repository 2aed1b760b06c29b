// The score head in a PEFT adapter's file.
#pragma once

#include <memory>

#include "base/file/file.h"
#include "base/status.h"
#include "engine/loader/peft/peft_config.h"
#include "engine/loader/score_head.h"

namespace tandem {

struct TensorInfo;

// Reads the tensor of the head; null if `info` is. Refuses a head that adapter_config.json names
// and the file lacks, more than kMaxLabels labels, other shapes and types, and numbers that are not
// finite.
Result<std::shared_ptr<const ScoreHead>> read_peft_score(const TensorInfo* info,
                                                         const PeftConfig& peft,
                                                         const ModelSpec& spec, const File& file);

}  // namespace tandem
