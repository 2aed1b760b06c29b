// The table of all JSON Schema keywords. Each is either enforced or refused by name. Names that are
// not in the table have no effect, as JSON Schema specifies (for example "x-order").
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

// Kinds of JSON values, as bits.
inline constexpr unsigned kNull = 1;
inline constexpr unsigned kBoolean = 2;
inline constexpr unsigned kInteger = 4;
inline constexpr unsigned kFraction = 8;  // a number that is not an integer
inline constexpr unsigned kNumber = kInteger | kFraction;
inline constexpr unsigned kString = 16;
inline constexpr unsigned kArray = 32;
inline constexpr unsigned kObject = 64;
inline constexpr unsigned kAnyKind = 127;

struct SchemaKeyword {
  enum class Does {
    enforced,
    refused,
    describes,  // does not affect validity
  };
  enum class Form {
    anything,
    schema,
    schemas,          // a list of schemas
    schemas_by_name,  // an object with schemas as values
    items,            // a schema, or (before draft 2020-12) a list of schemas
    types,
    values,  // a non-empty list of values
    count,   // an integer >= 0
    number,
    step,  // a number > 0
    flag,
    text,
    texts,
    pattern,
    patterns_to_schemas,
    reference,  // a reference within the document
  };
  const char* name;
  Does does;
  Form form = Form::anything;
  unsigned kinds = 0;  // the kinds that it applies to; a schema without "type" is taken to be of
                       // these
};

std::span<const SchemaKeyword> schema_keywords();
const SchemaKeyword* find_schema_keyword(std::string_view name);  // null: not a keyword

// Returns the bits of a type's name; 0 if there is no such type.
unsigned kinds_of_type(std::string_view type);
unsigned kinds_of_value(const nlohmann::ordered_json& value);  // 3.0 counts as an integer

using PatternCheck = std::function<Status(std::string_view where, const std::string& pattern)>;
// invalid_argument with keyword and place if a keyword is refused or its value has the wrong form.
// `check_pattern` is called for each pattern.
Status check_schema_keywords(const nlohmann::ordered_json& schema, const std::string& where,
                             const PatternCheck& check_pattern);
// Whether a keyword's value has the required form; schemas inside it are not checked.
bool has_form(const SchemaKeyword& keyword, const nlohmann::ordered_json& value);

}  // namespace tandem
