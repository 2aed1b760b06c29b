#include "engine/server/answer/request_trace.h"

#include <algorithm>

#include "base/trace/tracer.h"

namespace tandem {
namespace {

constexpr int kFailed = 500;
// A limit on traced prompts: a call may have hundreds, and each takes three spans.
constexpr std::size_t kMostPrompts = 8;

Span whole_call(const char* path, const TraceContext& context, TimePoint came, int status) {
  Span span = request_span(path, context, came, SteadyClock().now());
  span.kind = SpanKind::server;
  span.failed = status >= kFailed;
  span.add("http.response.status_code", static_cast<double>(status));
  return span;
}

// Adds the spans of a prompt in order: queue, prefill, decode. Phases that were not reached are
// left out.
void trace_prompt(const TraceContext& call, const GenerationStats& stats) {
  const auto at = [&](double seconds) { return stats.submitted + duration_of(seconds); };
  const bool began = stats.queue_s > 0 || stats.completion_tokens > 0;
  const bool spoke = stats.completion_tokens > 0;
  const double queued_s = began ? stats.queue_s : stats.total_s;
  trace::record(request_span("queue", call.child(), stats.submitted, at(queued_s)));
  if (!began) return;
  const double prefilled_s = spoke ? stats.ttft_s : stats.total_s;
  trace::record(request_span("prefill", call.child(), at(stats.queue_s), at(prefilled_s))
                    .add("tokens", static_cast<double>(stats.prompt_tokens))
                    .add("cached_tokens", static_cast<double>(stats.cached_tokens)));
  if (!spoke) return;
  trace::record(request_span("decode", call.child(), at(stats.ttft_s), at(stats.total_s))
                    .add("tokens", static_cast<double>(stats.completion_tokens))
                    .add("preemptions", static_cast<double>(stats.preemptions))
                    .add("cpu_layers", static_cast<double>(stats.cpu_layers)));
}

}  // namespace

void trace_call(const LoggedCall& call, int status, std::span<const GenerationStats> stats,
                std::optional<TimePoint> streamed_since) noexcept {
  if (!call.trace.sampled || !trace::on()) return;
  Span whole = whole_call(call.path, call.trace, call.came, status);
  whole.add("request_id", call.id).add("model", call.model);
  if (!call.adapter.empty()) whole.add("adapter", call.adapter);
  if (!stats.empty() && !stats.front().adapter_tier.empty()) {
    whole.add("tier", stats.front().adapter_tier);
  }
  for (const GenerationStats& each : stats.first(std::min(stats.size(), kMostPrompts))) {
    if (each.submitted != TimePoint{}) trace_prompt(call.trace, each);
  }
  if (streamed_since) {
    trace::record(request_span("stream", call.trace.child(), *streamed_since, whole.end));
  }
  trace::record(whole);
}

void trace_call(const HttpRequest& request, const char* path, int status) noexcept {
  if (!request.trace.sampled || !trace::on()) return;
  trace::record(
      whole_call(path, request.trace, request.came, status).add("request_id", request.id));
}

}  // namespace tandem
