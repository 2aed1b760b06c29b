// What the router itself refuses, in OpenAI's envelope.
#pragma once

#include <string>

#include "base/http/http_message.h"

namespace tandem {

struct RouteError {
  int status = 500;
  std::string message;
  std::string code;        // for programs
  int retry_after_s = 0;   // 0: no Retry-After
  std::string param = {};  // the field at fault; empty: null
};

std::string error_body(const RouteError& error);  // {"error": {...}}
HttpResponse refusal(const RouteError& error);

// The refusals that several places make.
RouteError nobody_accepts();
RouteError unknown_model(const std::string& name);
RouteError engines_lost(const std::string& request_id);  // two, by one request
RouteError weights_gone();                               // of an answer that has begun

}  // namespace tandem
