// What requests may say by other servers' interfaces and this one does not do: ignored in silence,
// a field that changes the answer would be a wrong answer. Beside request_fields.h, whose fields
// are obeyed. Names count however they are written: "maxTokens" is max_tokens.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "engine/server/messages/errors.h"
#include "engine/server/messages/request_fields.h"

namespace tandem {

// Would change the answer.
struct UnsupportedField {
  const char* name;
  unsigned where = kCompletions | kChat;
  const char* accepted = "[]";  // a JSON list: values that ask for nothing, as empty ones do
  bool accepts_n = false;       // and the value of `n`
  const char* instead = "";     // what does the same here
};

std::span<const UnsupportedField> unsupported_fields();
// Any value, as none changes the answer.
std::span<const char* const> ignored_fields();
nlohmann::json schema_of(const UnsupportedField& field);

// 400 for a field that the call does not do, that is another call's, or that names an adapter
// otherwise than 'model' does, by whatever name. `where` is kCompletions or kChat; `n` the call's.
// Names that nobody knows go to the log (warn_unknown_field).
MaybeError check_other_fields(const nlohmann::json& body, unsigned where, std::int32_t n);

}  // namespace tandem
