// What went wrong, as OpenAI's clients read it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/http/http_message.h"

namespace tandem {

struct ErrorEnvelope {
  int status = 500;
  std::string message;
  std::string param;      // the field at fault; empty: null
  std::string code;       // for programs; empty: null
  int retry_after_s = 0;  // 0: no Retry-After
};

// {"error": {"message", "type", "param", "code"}}; the type follows from the status.
nlohmann::json envelope_json(const ErrorEnvelope& error);
std::string envelope_text(const ErrorEnvelope& error);  // what is no UTF-8 in it is replaced
HttpResponse envelope_response(const ErrorEnvelope& error);

}  // namespace tandem
