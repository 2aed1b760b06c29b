// What a call's headers tell the waiting line: whose it is, and what its client was promised.
#pragma once

#include <span>

#include "base/http/http_message.h"
#include "engine/server/messages/errors.h"
#include "engine/service/generation.h"

namespace tandem {

// Of calls that say nothing of it, in seconds; 0: none.
struct Objectives {
  double ttft_s = 0;  // until the first token
  double tpot_s = 0;  // between tokens
};

// Fills in the deadlines (x-slo-ttft-ms, x-slo-tpot-ms: milliseconds, 0: none) and the tenant: the
// header x-gateway-inference-fairness-id, else what the body's `user` has put there, else a digest
// of the bearer token, else none. 400 names the header and says what it must be.
MaybeError take_queue_headers(const HttpRequest& request, const Objectives& defaults,
                              GenerationRequest& generation);

// A header that calls of text take, for /openapi.json.
struct QueueHeader {
  const char* name;
  const char* type;  // of its value: "number", "string"
  const char* summary;
};
std::span<const QueueHeader> queue_headers();

}  // namespace tandem
