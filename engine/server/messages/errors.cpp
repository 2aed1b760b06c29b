#include "engine/server/messages/errors.h"

#include <nlohmann/json.hpp>

#include "base/http/rest/error_envelope.h"
#include "base/log/log.h"
#include "engine/server/messages/response_building.h"

namespace tandem {
namespace {

constexpr int kRetryAfterS = 1;

ErrorEnvelope envelope_of(const ApiError& error) {
  return {error.status, error.message, error.code, error.retry_after_s, error.param};
}

}  // namespace

ApiError model_not_found(std::string_view model) {
  return {404,
          fmt::format("The model '{}' does not exist. GET /v1/models lists those that do.", model),
          "model", "model_not_found", 0};
}

ApiError internal_error(std::string_view for_the_log) {
  const std::string id = random_id("err-");
  log::error("{}: {}", id, for_the_log);
  return {500,
          fmt::format("Internal error; the server's log has the details under {}", id),
          {},
          "internal_error",
          0};
}

ApiError to_api_error(const Status& status) {
  const auto with = [&](int http, std::string code, int retry_after_s = 0) {
    return ApiError{http, status.message(), {}, std::move(code), retry_after_s};
  };
  switch (status.code()) {
    case StatusCode::invalid_argument:
      return with(400, "invalid_argument");
    case StatusCode::unauthenticated:
      return with(401, "invalid_api_key");
    case StatusCode::permission_denied:
      return with(403, "permission_denied");
    case StatusCode::not_found:
      return with(404, "not_found");
    case StatusCode::already_exists:
      return with(409, "already_exists");
    case StatusCode::resource_exhausted:
      return with(429, "overloaded", kRetryAfterS);
    case StatusCode::unavailable:
      return with(503, "unavailable", kRetryAfterS);
    case StatusCode::cancelled:
      return {503, "The request was cancelled by the server", {}, "cancelled", kRetryAfterS};
    case StatusCode::ok:
    case StatusCode::internal:
    case StatusCode::fatal:
      break;
  }
  return internal_error(status.message());
}

nlohmann::json error_json(const ApiError& error) {
  return envelope_json(envelope_of(error));
}

HttpResponse error_response(const ApiError& error) {
  return envelope_response(envelope_of(error));
}

}  // namespace tandem
