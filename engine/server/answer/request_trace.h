// What a trace says of a call that generates: the call, and below it how long each of its prompts
// waited, was computed and was generated from, and how long its answer took on its way out.
#pragma once

#include <optional>
#include <span>

#include "base/clock.h"
#include "base/http/http_message.h"
#include "engine/server/answer/request_log.h"
#include "engine/service/generation.h"

namespace tandem {

// When the call has ended, with the status that it is logged with. `streamed_since`: when the first
// of a stream's events was said. Neither waits nor throws.
void trace_call(const LoggedCall& call, int status, std::span<const GenerationStats> stats,
                std::optional<TimePoint> streamed_since) noexcept;
// Of another call, or of one that was refused.
void trace_call(const HttpRequest& request, const char* path, int status) noexcept;

}  // namespace tandem
