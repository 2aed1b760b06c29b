#include "scheduler/cluster/picker/pick_request.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/http/http_message.h"
#include "base/http/inflate.h"
#include "scheduler/cluster/router/client_call.h"

namespace tandem {
namespace {

std::string_view header_of(const PickRequest& request, const char* name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? std::string_view{} : std::string_view{found->second};
}

bool says_json(std::string_view content_type) {
  std::string lower(content_type);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower.empty() || lower.find("json") != std::string::npos;
}

}  // namespace

std::optional<ErrorEnvelope> read_pick_request(const PickRequest& request,
                                               std::size_t max_body_bytes,
                                               double average_answer_tokens, Wanted& wanted) {
  wanted = {};
  wanted.expected_tokens = average_answer_tokens;
  if (request.body.empty() || !says_json(header_of(request, "content-type"))) return std::nullopt;
  HttpRequest read;
  read.headers = request.headers;
  const std::string_view target = header_of(request, ":path");
  read.path = target.substr(0, target.find('?'));
  read.body = request.body;
  switch (content_coding(header_of(request, "content-encoding"))) {
    case ContentCoding::identity:
      break;
    case ContentCoding::unknown:
      return std::nullopt;  // the engine will refuse it
    case ContentCoding::deflated:
      read.body.clear();
      switch (inflate_bytes(request.body, max_body_bytes, read.body)) {
        case Inflated::done:
          break;
        case Inflated::too_long:
          return ErrorEnvelope{413, "The body is too long", "body_too_long"};
        case Inflated::malformed:
          return ErrorEnvelope{400, "The body is not what Content-Encoding says",
                               "invalid_encoding"};
      }
      break;
  }
  ClientCall call;
  if (auto refused = read_client_call(read, call)) return refused;
  wanted.model = call.model;
  wanted.adapters = std::move(call.adapters);
  wanted.prompt_tokens = call.prompt_tokens;
  wanted.prompt = std::move(call.prompt);
  wanted.slo_ttft_s = call.slo_ttft_s;
  wanted.slo_token_s = call.slo_token_s;
  if (call.max_tokens > 0) {
    wanted.expected_tokens = std::min(static_cast<double>(call.max_tokens), average_answer_tokens);
  }
  return std::nullopt;
}

}  // namespace tandem
