// What engines have learnt of a machine, as JSON: a part of a profile.
#pragma once

#include "base/status.h"
#include "engine/loader/json.h"
#include "scheduler/coldstart/engine_lessons.h"

namespace tandem {

// {"link": [ratios], "layers": [[ratios] for each bucket], "read_whole": ..., of each StallKind,
//  "plans": {"version": 5, "seen": [{"adapters": 1, "rows": 9, "link": 2, "workers": 4, "drowsy":
//  0,
//            "steps": 7, "starts": 0, "wait": [ratios], "plan": [ratios], "assist": [ratios]}]}}.
OrderedJson to_json(const EngineLessons& lessons);

// Written by a stranger: what is missing is empty, as are plans of another version; lists that are
// too long, or hold what is no number, are refused. Whether a ratio is plausible is the business of
// CostLearner and PlanMemory.
Result<EngineLessons> parse_lessons(const Json& object);

}  // namespace tandem
