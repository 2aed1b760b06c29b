// Converts a JSON body to checked requests: applies the table of request_fields.h, then the checks
// that involve several fields.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "engine/server/messages/errors.h"
#include "engine/server/messages/request/request_fields.h"
#include "engine/server/messages/text_codec.h"

namespace tandem {

// Options for parsing a conversation's fields.
struct ConversationRules {
  // The bytes of the body, which keep the order of members that `body` has lost and that templates
  // print. Empty: there are none.
  std::string_view bytes;
  bool trust_chat_template = false;  // requests may contain their own template
};

// Parses a call's fields. Sampling parameters that the body does not set keep their values in
// `call`. A known field with an invalid value is an error that names the field and its range; an
// unsupported field that would change the answer is an error, too. Null means the default. An
// unknown field is ignored, with one warning in the log per name.
MaybeError parse_call(const nlohmann::json& body, bool chat, std::int32_t max_sequences,
                      CompletionCall& call, const ConversationRules& rules = {});
// Likewise for a call whose requests have pooling and no answer: kEmbeddings, kClassify, kScore or
// kRerank.
MaybeError parse_pooled(const nlohmann::json& body, unsigned where, std::int32_t max_sequences,
                        CompletionCall& call);
// Parses only the fields of the conversation, for /tokenize, and ignores all others.
MaybeError parse_conversation(const nlohmann::json& body, const ConversationRules& rules,
                              CompletionCall& call);

// Applies a checkpoint's default for a sampling parameter, parsed like the request field of this
// name, which must exist.
MaybeError take_sampling_default(std::string_view name, const nlohmann::json& value,
                                 SamplingParams& sampling);

// Makes one request per prompt, without the adapter's name. Tokenizes, renders the chat, checks ids
// and the context length, and sets max_tokens.
MaybeError make_requests(const CompletionCall& call, const TextCodec& text,
                         std::int32_t max_model_len, std::vector<GenerationRequest>& requests);

// A 400 with both numbers if `num_tokens` leave no room for another token (or, with
// `no_new_tokens`, do not fit themselves).
MaybeError check_context(std::size_t num_tokens, bool no_new_tokens, std::int32_t max_model_len,
                         std::string_view param);
// Returns the chat's tokens. A 400 if the checkpoint has no template or the template fails.
MaybeError encode_chat(const CompletionCall& call, const TextCodec& text,
                       std::vector<TokenId>& tokens);

// Warns once per name and process; remembers a bounded number of names.
void warn_unknown_field(std::string_view call, std::string_view field);

}  // namespace tandem
