// What a trace says of a call that the router carries: the call, how long it waited for an engine,
// and each engine that was asked.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "base/trace/trace_context.h"
#include "scheduler/router/routed_call.h"

namespace tandem {

// None of these waits or throws; what is not sampled is not recorded.

void trace_wait(const TraceContext& call, TimePoint since, TimePoint until) noexcept;
// `status`: what the engine answered; 0: nothing.
void trace_attempt(const TraceContext& attempt, TimePoint asked, TimePoint ended,
                   int status) noexcept;
void trace_end(const RoutedCall& call, std::string_view outcome, TimePoint ended) noexcept;

}  // namespace tandem
