// POST /v1/relay: a client's call that a router passes on, with the part of its answer that was
// sent before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/server/cluster/relayed_weights.h"
#include "engine/server/messages/errors.h"
#include "engine/service/generation.h"

namespace tandem {

// The part of one choice that the client has received, from one engine or several.
struct SentChoice {
  GeneratedBefore generated;
  // The number of chunks of the last token that were passed on; unset: all. A token of a tool call
  // may take several.
  std::optional<std::size_t> events;
};

struct RelayedCall {
  bool chat = false;
  std::string id;  // of the answer
  std::int64_t created = 0;
  std::uint64_t seed = 0;        // used if the request gives none
  std::vector<SentChoice> sent;  // per choice, by index; empty: nothing has been sent
  RelayedWeights weights;
};

// Parses the members of the wrapper. The member `request`, the client's body, is returned as bytes,
// because the call's own parser needs the order of its members. `body` is the parsed form of
// `bytes`.
MaybeError parse_relayed(std::string_view bytes, const nlohmann::json& body, RelayedCall& call,
                         std::string& request);

// Applies the relayed call to the requests made from the client's body: seeds, and the tokens that
// each continuation has generated before. A 400 if `sent` does not match them, or they are not
// streamed.
MaybeError take_up(const RelayedCall& call, bool is_streamed,
                   std::span<GenerationRequest> requests);

}  // namespace tandem
