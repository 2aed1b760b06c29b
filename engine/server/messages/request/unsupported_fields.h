// Fields of other servers' interfaces that this server does not support. A field that changes the
// answer must not be ignored silently, since the answer would be wrong. The supported fields are in
// request_fields.h. Names match in any convention: "maxTokens" is max_tokens.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "engine/server/messages/errors.h"
#include "engine/server/messages/request/request_fields.h"

namespace tandem {

// A field that would change the answer.
struct UnsupportedField {
  const char* name;
  unsigned where = kCompletions | kChat;
  const char* accepted = "[]";  // a JSON list of values without effect, in addition to empty ones
  bool accepts_n = false;       // the value of `n` has no effect either
  const char* instead = "";     // the equivalent here
};

std::span<const UnsupportedField> unsupported_fields();
// Fields that do not change the answer, with any value.
std::span<const char* const> ignored_fields();
nlohmann::json schema_of(const UnsupportedField& field);

// A 400 for a field that is not supported, that belongs to another kind of call, or that names an
// adapter in a way other than 'model' and 'adapters'. `where` is one call, and not kTokenize; `n`
// is the call's. Unknown names are logged (warn_unknown_field).
MaybeError check_other_fields(const nlohmann::json& body, unsigned where, std::int32_t n);

}  // namespace tandem
