// The trace spans of a call that the router carries: the call, its wait for an engine, and each
// engine that was asked.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "base/trace/trace_context.h"
#include "scheduler/cluster/router/routed_call.h"

namespace tandem {

// None of these functions blocks or throws. Calls that are not sampled are not recorded.

void trace_wait(const TraceContext& call, TimePoint since, TimePoint until) noexcept;
// `status`: the engine's HTTP status; 0 without an answer.
void trace_attempt(const TraceContext& attempt, TimePoint asked, TimePoint ended,
                   int status) noexcept;
void trace_end(const RoutedCall& call, std::string_view outcome, TimePoint ended) noexcept;

}  // namespace tandem
