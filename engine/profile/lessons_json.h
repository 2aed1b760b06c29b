// The JSON of the cost corrections that engines have learned on a machine; part of a profile.
#pragma once

#include "base/status.h"
#include "engine/loader/json.h"
#include "scheduler/planning/coldstart/engine_lessons.h"

namespace tandem {

// Returns {"link": [ratios], "layers": [[ratios] for each bucket], "read_whole": ..., of each
// StallKind, "plans": {"version": 5, "seen": [{"adapters": 1, "rows": 9, "link": 2, "workers": 4,
// "just_woken": 0, "steps": 7, "starts": 0, "wait": [ratios], "plan": [ratios], "assist":
// [ratios]}]}}.
OrderedJson to_json(const EngineLessons& lessons);

// Parses untrusted input: absent keys and plans of another version give empty lists; lists that are
// too long or contain non-numbers are refused. CostLearner and PlanMemory check whether a ratio is
// plausible.
Result<EngineLessons> parse_lessons(const Json& object);

}  // namespace tandem
