// Request fields whose values are lists or objects of plain data: prompts, stops, biases. Each
// function is a RequestField::take.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/server/messages/request/request_fields.h"

namespace tandem {

// Parses a list of token ids; false if it contains anything else. The ids are not checked against
// the vocabulary.
bool take_tokens(const nlohmann::json& list, std::vector<TokenId>& tokens);

bool take_prompt(const nlohmann::json& value, CompletionCall& call, std::string& reason);
// A text, or a list of texts.
bool take_texts(const nlohmann::json& value, std::vector<Prompt>& texts);
// Documents: texts, or objects with a 'text'.
bool take_ranked(const nlohmann::json& value, CompletionCall& call, std::string& reason);
bool take_encoding_format(const nlohmann::json& value, CompletionCall& call, std::string& reason);
bool take_pooling(const nlohmann::json& value, CompletionCall& call, std::string& reason);
bool take_adapters(const nlohmann::json& value, CompletionCall& call, std::string& reason);
bool take_stop(const nlohmann::json& value, CompletionCall& call, std::string& reason);
bool take_logit_bias(const nlohmann::json& value, CompletionCall& call, std::string& reason);
bool take_stream_options(const nlohmann::json& value, CompletionCall& call, std::string& reason);

}  // namespace tandem
