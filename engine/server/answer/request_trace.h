// Trace spans of calls that generate: one for the call, and below it one each for the queueing,
// prefill and decoding of a prompt, and for sending the answer.
#pragma once

#include <optional>
#include <span>

#include "base/clock.h"
#include "base/http/http_message.h"
#include "engine/server/answer/request_log.h"
#include "engine/service/generation.h"

namespace tandem {

// Called when the call has ended, with the status that is logged. `streamed_since` is the time of a
// stream's first event. Does not block or throw.
void trace_call(const LoggedCall& call, int status, std::span<const GenerationStats> stats,
                std::optional<TimePoint> streamed_since) noexcept;
// Traces any other call, or a refused one.
void trace_call(const HttpRequest& request, const char* path, int status) noexcept;

}  // namespace tandem
