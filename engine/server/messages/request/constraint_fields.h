// The fields of a request that constrain its text: OpenAI's `response_format`, vLLM's
// `structured_outputs` and its older `guided_*`. A request may have one constraint.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/server/messages/request/request_fields.h"

namespace tandem {

// Each function sets the call's constraint from a field's value. The members are in the order of
// the request's bytes, which becomes the order of an object's properties in the text. False: the
// value breaks the field's rule; `reason`, if set, says how. The constraint's contents are checked
// by its compiler.
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
