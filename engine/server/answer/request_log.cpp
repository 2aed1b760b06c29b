#include "engine/server/answer/request_log.h"

#include <algorithm>
#include <cstdint>

#include "base/log/log.h"

namespace tandem {
namespace {

std::string trace_id(const TraceContext& context) {
  return context.valid() ? trace_hex(context.trace) : std::string();
}

// The last field is the trace id, which is left out if there is none.
void write(std::span<const log::Field> fields, const TraceContext& context) {
  log::info_with("request", context.valid() ? fields : fields.first(fields.size() - 1));
}

}  // namespace

void log_call(const LoggedCall& call, int status, std::span<const GenerationStats> stats) {
  std::int64_t prompt = 0;
  std::int64_t cached = 0;
  std::int64_t completion = 0;
  double queue_s = 0;
  double ttft_s = 0;
  double total_s = 0;
  std::string_view tier;
  for (const GenerationStats& one : stats) {
    prompt += one.prompt_tokens;
    cached += one.cached_tokens;
    completion += one.completion_tokens;
    if (one.completion_tokens > 0) ttft_s = ttft_s > 0 ? std::min(ttft_s, one.ttft_s) : one.ttft_s;
    queue_s = std::max(queue_s, one.queue_s);
    total_s = std::max(total_s, one.total_s);
    if (tier.empty()) tier = one.adapter_tier;
  }
  const std::string trace = trace_id(call.trace);
  const log::Field fields[] = {
      {"id", call.id},           {"path", call.path},       {"status", std::int64_t{status}},
      {"model", call.model},     {"adapter", call.adapter}, {"tier", tier},
      {"prompt_tokens", prompt}, {"cached_tokens", cached}, {"completion_tokens", completion},
      {"queue_s", queue_s},      {"ttft_s", ttft_s},        {"total_s", total_s},
      {"trace_id", trace},
  };
  write(fields, call.trace);
}

void log_call(const HttpRequest& request, const char* path, int status, double total_s) {
  const std::string trace = trace_id(request.trace);
  const log::Field fields[] = {{"id", request.id},
                               {"path", path},
                               {"status", std::int64_t{status}},
                               {"total_s", total_s},
                               {"trace_id", trace}};
  write(fields, request.trace);
}

}  // namespace tandem
