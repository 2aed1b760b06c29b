// The log of requests: one line per finished request.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/http/http_message.h"
#include "base/trace/trace_context.h"
#include "engine/service/generation.h"

namespace tandem {

// The data logged about a call that generates, from its submission to its end.
struct LoggedCall {
  std::string id;  // of the request
  const char* path = "";
  std::string model;    // name of the base
  std::string adapter;  // empty: none
  bool enabled = false;
  TraceContext trace = {};  // from the request, like `came`
  TimePoint came = {};
};

// Logs a call that generates. Status 499 means that the client disconnected.
void log_call(const LoggedCall& call, int status, std::span<const GenerationStats> stats);
// Logs any other call, or a refused one.
void log_call(const HttpRequest& request, const char* path, int status, double total_s);

}  // namespace tandem
