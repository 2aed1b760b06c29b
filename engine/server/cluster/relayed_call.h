// POST /v1/relay: a client's call as a router passes it on, with what has been said of its answer.
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

// What the client has been told of one choice, by one engine or several.
struct SentChoice {
  GeneratedBefore generated;
  // Of the chunks that say its last token, so many were passed on; nothing: all there are. A token
  // of a call of tools may take several.
  std::optional<std::size_t> events;
};

struct RelayedCall {
  bool chat = false;
  std::string id;  // the answer's
  std::int64_t created = 0;
  std::uint64_t seed = 0;        // where the request gives none
  std::vector<SentChoice> sent;  // of each choice by its index; empty: nothing has been said
  RelayedWeights weights;
};

// The wrapper's members. Of the client's body, `request`, the bytes are what is wanted, in the
// order of its members: it is left to the call's own parser. `body` is `bytes`, parsed.
MaybeError parse_relayed(std::string_view bytes, const nlohmann::json& body, RelayedCall& call,
                         std::string& request);

// Hands it to the requests that were made of the client's body: seeds, and what each continuation
// has generated before. 400 when `sent` does not fit them, or they are not streamed.
MaybeError take_up(const RelayedCall& call, bool is_streamed,
                   std::span<GenerationRequest> requests);

}  // namespace tandem
