#include "engine/server/answer/request_log.h"

#include <algorithm>
#include <cstdint>

#include "base/log.h"

namespace tandem {
namespace {

constexpr std::string_view kRequest = "request";

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
  const log::Field fields[] = {
      {"id", call.id},           {"path", call.path},       {"status", std::int64_t{status}},
      {"model", call.model},     {"adapter", call.adapter}, {"tier", tier},
      {"prompt_tokens", prompt}, {"cached_tokens", cached}, {"completion_tokens", completion},
      {"queue_s", queue_s},      {"ttft_s", ttft_s},        {"total_s", total_s},
  };
  log::info_with(kRequest, fields);
}

void log_call(std::string_view id, const char* path, int status, double total_s) {
  const log::Field fields[] = {
      {"id", id}, {"path", path}, {"status", std::int64_t{status}}, {"total_s", total_s}};
  log::info_with(kRequest, fields);
}

}  // namespace tandem
