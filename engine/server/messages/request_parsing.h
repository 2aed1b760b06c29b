// A JSON body -> a checked request: the table of request_fields.h applied, then what spans fields.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "engine/server/messages/errors.h"
#include "engine/server/messages/request_fields.h"
#include "engine/server/messages/text_codec.h"

namespace tandem {

// What a conversation's fields are read by.
struct ConversationRules {
  // The body's own: they keep the order of members, which templates print and `body` has lost.
  // Empty: there are none.
  std::string_view bytes;
  bool trust_chat_template = false;  // requests may bring their own
};

// A call's fields; what `call` says of sampling is kept where the body says nothing. A known field
// with a bad value is an error that names the field and its range,
// a field that would change the answer and is not supported one that says so; null means the
// default. An unknown field is ignored, with one warning in the log per name.
MaybeError parse_call(const nlohmann::json& body, bool chat, std::int32_t max_sequences,
                      CompletionCall& call, const ConversationRules& rules = {});
// The conversation alone, of /tokenize; passes over all other fields.
MaybeError parse_conversation(const nlohmann::json& body, const ConversationRules& rules,
                              CompletionCall& call);

// What a checkpoint asks for where requests say nothing, read as the request's field of this name
// would be, which there must be.
MaybeError take_sampling_default(std::string_view name, const nlohmann::json& value,
                                 SamplingParams& sampling);

// One request per prompt, adapter not yet named. Tokenizes, renders the chat, checks ids and the
// context length, and fills in max_tokens.
MaybeError make_requests(const CompletionCall& call, const TextCodec& text,
                         std::int32_t max_model_len, std::vector<GenerationRequest>& requests);

// 400 with both numbers, when `num_tokens` leave no room for one more (or, with `no_new_tokens`,
// do not fit themselves).
MaybeError check_context(std::size_t num_tokens, bool no_new_tokens, std::int32_t max_model_len,
                         std::string_view param);
// The chat's tokens. 400 when the checkpoint has no template or the template says no.
MaybeError encode_chat(const CompletionCall& call, const TextCodec& text,
                       std::vector<TokenId>& tokens);

// Warns once per name and process; remembers a bounded number of names.
void warn_unknown_field(std::string_view call, std::string_view field);

}  // namespace tandem
