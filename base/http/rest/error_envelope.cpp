#include "base/http/rest/error_envelope.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/http/auth.h"

namespace tandem {
namespace {

std::string_view type_of_status(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 409:
      return "conflict_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

}  // namespace

nlohmann::json envelope_json(const ErrorEnvelope& error) {
  return {{"error",
           {{"message", error.message},
            {"type", type_of_status(error.status)},
            {"param", text_or_null(error.param)},
            {"code", text_or_null(error.code)}}}};
}

std::string envelope_text(const ErrorEnvelope& error) {
  return envelope_json(error).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

HttpResponse envelope_response(const ErrorEnvelope& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = envelope_text(error);
  if (error.retry_after_s > 0) {
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  }
  return response;
}

std::optional<HttpResponse> refuse_without_key(const HttpRequest& request, std::string_view key) {
  if (key.empty() || authorized(request.header("authorization"), key)) return std::nullopt;
  HttpResponse response =
      envelope_response({401, "The API key is missing or wrong; send 'Authorization: Bearer KEY'",
                         "invalid_api_key"});
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

HttpResponse status_answer(int status, std::string_view word) {
  HttpResponse response;
  response.status = status;
  response.body = fmt::format(R"({{"status":"{}"}})", word);
  return response;
}

HttpResponse metrics_answer(std::string text) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = std::move(text);
  return response;
}

}  // namespace tandem
