// Errors in OpenAI's format: {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/http/http_message.h"
#include "base/status.h"

namespace tandem {

// The status of a call whose client disconnected; it appears in the log and the metrics only.
inline constexpr int kClientGone = 499;

struct ApiError {
  int status = 500;
  std::string message;
  std::string param;      // the invalid field; empty: null
  std::string code;       // error code; empty: null
  int retry_after_s = 0;  // 0: no Retry-After
};

using MaybeError = std::optional<ApiError>;  // empty: no error

// A 400 about one field.
template <typename... Args>
ApiError bad_field(std::string_view param, fmt::format_string<Args...> format, Args&&... args) {
  return {400, fmt::format(format, std::forward<Args>(args)...), std::string(param), {}, 0};
}
ApiError model_not_found(std::string_view model);

// Converts to the matching HTTP status. The message of an `internal` failure is only logged, with a
// random id that is returned to the client.
ApiError to_api_error(const Status& status);
ApiError internal_error(std::string_view for_the_log);

nlohmann::json error_json(const ApiError& error);
HttpResponse error_response(const ApiError& error);

}  // namespace tandem
