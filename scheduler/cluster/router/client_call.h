// A client's request in the router: parsed once for the fields that routing needs, its bytes kept
// as received.
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
#include "base/ids/weights_identity.h"
#include "base/trace/trace_context.h"
#include "scheduler/cluster/prefixes/prompt_blocks.h"

namespace tandem {

struct ClientCall {
  std::string request_id;  // the request's id in the logs
  TraceContext trace;
  std::string path;
  std::string body;      // verbatim
  bool relayed = false;  // completions or chat, by /v1/relay; else passed on as it is
  bool stream = false;
  bool include_usage = false;
  std::string model;                  // empty: the base
  std::vector<std::string> adapters;  // the names in a field `adapters`: all are needed
  std::size_t choices = 1;
  std::int64_t max_tokens = 0;      // 0 if not given
  std::int64_t prompt_tokens = 0;   // estimated from the bytes of the body
  std::vector<PromptBlock> prompt;  // to find engines with a part of it cached
  double slo_ttft_s = 0;
  double slo_token_s = 0;
  // Fields that give another engine's answer the same identity.
  std::string id;
  std::int64_t created = 0;
  std::uint64_t seed = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // headers passed on
};

// Rejects a body that is no JSON object; the engine checks the values of its fields. Thread-safe.
std::optional<ErrorEnvelope> read_client_call(const HttpRequest& request, ClientCall& call);

// Returns an event of a streamed answer without content, for the choice of this number.
std::string silent_event(const ClientCall& call, std::size_t choice);

// Returns the body of /v1/relay, with the client's body spliced in as text. `sent`: from
// StreamLedger, or empty; `weights`: the weights that `sent` came from, if any.
std::string relay_body(const ClientCall& call, std::string_view sent,
                       const std::optional<WeightsIdentity>& weights);

}  // namespace tandem
