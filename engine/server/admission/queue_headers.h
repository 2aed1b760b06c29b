// Request headers for the queue: the tenant, and the latency objectives of the client.
#pragma once

#include <span>

#include "base/http/http_message.h"
#include "engine/server/messages/errors.h"
#include "engine/service/generation.h"

namespace tandem {

// Default objectives, in seconds, for calls without their own; 0: none.
struct Objectives {
  double ttft_s = 0;  // until the first token
  double tpot_s = 0;  // between two tokens
};

// Sets the deadlines (x-slo-ttft-ms, x-slo-tpot-ms: milliseconds, 0: none) and the tenant: the
// header x-gateway-inference-fairness-id, else the value already set from the body's `user`, else a
// digest of the bearer token, else none. A 400 names the header and its valid values.
MaybeError take_queue_headers(const HttpRequest& request, const Objectives& defaults,
                              GenerationRequest& generation);

// A header that calls that generate text accept, for /openapi.json.
struct QueueHeader {
  const char* name;
  const char* type;  // type of its value: "number", "string"
  const char* summary;
};
std::span<const QueueHeader> queue_headers();

}  // namespace tandem
