#include "engine/server/answer/request_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace tandem {
namespace {

std::string head(std::string_view id, const char* path, int status) {
  return fmt::format("request id={} path={} status={}", id, path, status);
}

}  // namespace

std::string log_line(const LoggedCall& call, int status, std::span<const GenerationStats> stats) {
  std::int64_t prompt = 0;
  std::int64_t cached = 0;
  std::int64_t completion = 0;
  double ttft_s = 0;
  double total_s = 0;
  std::string_view tier;
  for (const GenerationStats& one : stats) {
    prompt += one.prompt_tokens;
    cached += one.cached_tokens;
    completion += one.completion_tokens;
    if (one.completion_tokens > 0) ttft_s = ttft_s > 0 ? std::min(ttft_s, one.ttft_s) : one.ttft_s;
    total_s = std::max(total_s, one.total_s);
    if (tier.empty()) tier = one.adapter_tier;
  }
  return fmt::format(
      "{} model={} adapter={} tier={} prompt_tokens={} cached_tokens={} completion_tokens={} "
      "ttft_s={:.4f} total_s={:.4f}",
      head(call.id, call.path, status), call.model, call.adapter.empty() ? "-" : call.adapter,
      tier.empty() ? "-" : tier, prompt, cached, completion, ttft_s, total_s);
}

std::string log_line(std::string_view id, const char* path, int status, double total_s) {
  return fmt::format("{} total_s={:.4f}", head(id, path, status), total_s);
}

}  // namespace tandem
