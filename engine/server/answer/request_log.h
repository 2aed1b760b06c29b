// What the log says of requests: a line for each that has ended.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/http/http_message.h"
#include "base/trace/trace_context.h"
#include "engine/service/generation.h"

namespace tandem {

// Of a call that generates, from where it is submitted to its end.
struct LoggedCall {
  std::string id;  // the request's
  const char* path = "";
  std::string model;    // the base
  std::string adapter;  // empty: none
  bool enabled = false;
  TraceContext trace = {};  // as the request's, like `came`
  TimePoint came = {};
};

// Status 499: the client went away.
void log_call(const LoggedCall& call, int status, std::span<const GenerationStats> stats);
// Of another call, or of one that was refused.
void log_call(const HttpRequest& request, const char* path, int status, double total_s);

}  // namespace tandem
