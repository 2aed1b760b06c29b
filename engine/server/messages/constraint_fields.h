// The fields of a request that say what its text must be: OpenAI's `response_format`, vLLM's
// `structured_outputs` and its older `guided_*`. One of them, once.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/server/messages/request_fields.h"

namespace tandem {

// Each takes a field's value into the call's constraint, members in the order of the request's
// bytes, which is the order of an object's properties in the text. False: it breaks the field's
// rule; `reason`, when set, says how. What the constraint itself says is judged by who compiles it.
bool take_response_format(const nlohmann::ordered_json& value, CompletionCall& call,
                          std::string& reason);
bool take_structured_outputs(const nlohmann::ordered_json& value, CompletionCall& call,
                             std::string& reason);
bool take_guided_json(const nlohmann::ordered_json& value, CompletionCall& call,
                      std::string& reason);
bool take_guided_regex(const nlohmann::ordered_json& value, CompletionCall& call,
                       std::string& reason);
bool take_guided_choice(const nlohmann::ordered_json& value, CompletionCall& call,
                        std::string& reason);
bool take_guided_grammar(const nlohmann::ordered_json& value, CompletionCall& call,
                         std::string& reason);

bool take_bad_words(const nlohmann::json& value, CompletionCall& call, std::string& reason);

}  // namespace tandem
