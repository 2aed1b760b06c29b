// Answers that every REST server here gives: above all errors, in the form that OpenAI's clients
// expect.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/http/http_message.h"

namespace tandem {

struct ErrorEnvelope {
  int status = 500;
  std::string message;
  std::string code = {};   // for programs; empty: null
  int retry_after_s = 0;   // 0: no Retry-After
  std::string param = {};  // the field at fault; empty: null
};

// {"error": {"message", "type", "param", "code"}}; the type follows from the status.
nlohmann::json envelope_json(const ErrorEnvelope& error);
std::string envelope_text(const ErrorEnvelope& error);  // invalid UTF-8 in it is replaced
HttpResponse envelope_response(const ErrorEnvelope& error);
// 401 for a request without `key`; nothing if it has the key or `key` is empty.
std::optional<HttpResponse> refuse_without_key(const HttpRequest& request, std::string_view key);

// Two answers without an error: {"status": word}, and Prometheus text.
HttpResponse status_answer(int status, std::string_view word);
HttpResponse metrics_answer(std::string text);

}  // namespace tandem
