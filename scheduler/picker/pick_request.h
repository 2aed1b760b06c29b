// What Envoy shows of a client's request, and what of it a policy is to know.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/http/rest/error_envelope.h"
#include "scheduler/cluster/cluster.h"

namespace tandem {

// Requests as they come from strangers: whoever fills it bounds the body and the headers.
struct PickRequest {
  std::map<std::string, std::string> headers;  // lower-case names, HTTP/2's ":path" among them
  std::string body;                            // as it came
  // The endpoints among which the gateway wants the choice; none: all. Empty: there is none.
  std::optional<std::vector<std::string>> subset;
};

// The model, the lengths and the deadlines that it names. A request without a body, or whose body
// is no JSON by its Content-Type, is anybody's: any engine may have it. JSON that is none is
// refused here, with what the client is to be told. Thread-safe.
std::optional<ErrorEnvelope> read_pick_request(const PickRequest& request,
                                               std::size_t max_body_bytes,
                                               double average_answer_tokens, Wanted& wanted);

}  // namespace tandem
