// A client's request as Envoy shows it, and the part of it that a policy needs.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/http/rest/error_envelope.h"
#include "scheduler/cluster/members/cluster.h"

namespace tandem {

// A request of an untrusted client; the code that fills it limits the size of body and headers.
struct PickRequest {
  std::map<std::string, std::string> headers;  // lower-case names, HTTP/2's ":path" among them
  std::string body;                            // as received
  // The endpoints from which the gateway wants the choice; unset: all. Empty list: none.
  std::optional<std::vector<std::string>> subset;
};

// Reads the model, the lengths and the deadlines from the request. A request without a body, or
// with a body that is not JSON by its Content-Type, may go to any engine. Invalid JSON is refused
// with the error for the client. Thread-safe.
std::optional<ErrorEnvelope> read_pick_request(const PickRequest& request,
                                               std::size_t max_body_bytes,
                                               double average_answer_tokens, Wanted& wanted);

}  // namespace tandem
