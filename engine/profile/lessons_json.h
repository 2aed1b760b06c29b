// What engines have learnt of a machine's costs, as JSON: a part of a profile.
#pragma once

#include "base/status.h"
#include "engine/loader/json.h"
#include "scheduler/costs/cost_learner.h"

namespace tandem {

// {"link": [ratios], "layers": [[ratios] for each bucket], "read_whole": ..., of each StallKind}.
OrderedJson to_json(const CostLessons& lessons);

// Written by a stranger: lists that are missing are empty, those that are too long, or hold what is
// no number, are refused. Whether a ratio is plausible is CostLearner's business.
Result<CostLessons> parse_lessons(const Json& object);

}  // namespace tandem
