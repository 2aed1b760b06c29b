#include "scheduler/cluster/router/call_trace.h"

#include "base/trace/tracer.h"

namespace tandem {
namespace {

constexpr int kFailedFrom = 500;
constexpr const char* kStatus = "http.response.status_code";

// Span names must outlive the call, so the path is mapped to one of the known literals.
const char* name_of_path(std::string_view path) {
  for (const char* known :
       {"/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/v1/classify", "/v1/score",
        "/v1/rerank", "/v2/rerank", "/rerank", "/tokenize"}) {
    if (path == known) return known;
  }
  return "/detokenize";
}

}  // namespace

void trace_wait(const TraceContext& call, TimePoint since, TimePoint until) noexcept {
  if (!call.sampled || !trace::on()) return;
  trace::record(request_span("wait for an engine", call.child(), since, until));
}

void trace_attempt(const TraceContext& attempt, TimePoint asked, TimePoint ended,
                   int status) noexcept {
  if (!attempt.sampled || !trace::on()) return;
  Span span = request_span("ask an engine", attempt, asked, ended);
  span.kind = SpanKind::client;
  span.failed = status == 0 || status >= kFailedFrom;
  span.add(kStatus, static_cast<double>(status));
  trace::record(span);
}

void trace_end(const RoutedCall& call, std::string_view outcome, TimePoint ended) noexcept {
  const TraceContext& context = call.call().trace;
  if (!context.sampled || !trace::on()) return;
  Span span = request_span(name_of_path(call.call().path), context, call.progress().came_at, ended);
  span.kind = SpanKind::server;
  span.failed = outcome == "failed";
  span.add("request_id", call.call().request_id)
      .add("model", call.call().model)
      .add("outcome", outcome)
      .add("engines_asked", static_cast<double>(call.progress().engines_asked))
      .add("tokens", static_cast<double>(call.num_tokens()));
  trace::record(span);
}

}  // namespace tandem
