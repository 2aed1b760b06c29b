// A client's request as the router keeps it: read once for what routing needs, its bytes as they
// came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/http/http_message.h"
#include "base/http/rest/error_envelope.h"
#include "base/trace/trace_context.h"
#include "base/weights_identity.h"
#include "scheduler/prefixes/prompt_blocks.h"

namespace tandem {

struct ClientCall {
  std::string request_id;  // by which the logs know it
  TraceContext trace;
  std::string path;
  std::string body;      // verbatim
  bool relayed = false;  // completions or chat, by /v1/relay; else it is passed on as it is
  bool stream = false;
  bool include_usage = false;
  std::string model;  // empty: the base
  std::size_t choices = 1;
  std::int64_t max_tokens = 0;      // 0: not given
  std::int64_t prompt_tokens = 0;   // by its bytes
  std::vector<PromptBlock> prompt;  // by which engines with a part of it cached are found
  double slo_ttft_s = 0;
  double slo_token_s = 0;
  // What makes another engine's answer the same one's.
  std::string id;
  std::int64_t created = 0;
  std::uint64_t seed = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // passed on
};

// A body that is no JSON object is refused; what its fields hold, the engine judges. Thread-safe.
std::optional<ErrorEnvelope> read_client_call(const HttpRequest& request, ClientCall& call);

// An event of a streamed answer that says nothing, of the choice of this number.
std::string silent_event(const ClientCall& call, std::size_t choice);

// The body of /v1/relay: the client's spliced in as text. `sent`: what StreamLedger says, or empty;
// `weights`: what that came from, or nothing.
std::string relay_body(const ClientCall& call, std::string_view sent,
                       const std::optional<WeightsIdentity>& weights);

}  // namespace tandem
