// Every keyword of JSON Schema, in one table: what a schema says is enforced, or refused by name.
// Names that are not in it say nothing, as JSON Schema has it ("x-order", say).
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

// Kinds of JSON's values, as bits.
inline constexpr unsigned kNull = 1;
inline constexpr unsigned kBoolean = 2;
inline constexpr unsigned kInteger = 4;
inline constexpr unsigned kFraction = 8;  // a number that is no integer
inline constexpr unsigned kNumber = kInteger | kFraction;
inline constexpr unsigned kString = 16;
inline constexpr unsigned kArray = 32;
inline constexpr unsigned kObject = 64;
inline constexpr unsigned kAnyKind = 127;

struct SchemaKeyword {
  enum class Does {
    enforced,
    refused,
    describes,  // says nothing of what is valid
  };
  enum class Form {
    anything,
    schema,
    schemas,          // a list
    schemas_by_name,  // an object of them
    items,            // a schema, or (before draft 2020-12) a list
    types,
    values,  // a list that is not empty
    count,   // an integer, zero or more
    number,
    step,  // a number above zero
    flag,
    text,
    texts,
    pattern,
    patterns_to_schemas,
    reference,  // within the document
  };
  const char* name;
  Does does;
  Form form = Form::anything;
  unsigned kinds = 0;  // that it is about: a schema without "type" is of those
};

std::span<const SchemaKeyword> schema_keywords();
const SchemaKeyword* find_schema_keyword(std::string_view name);  // null: none of JSON Schema's

// The bits of a type's name; 0: there is no such.
unsigned kinds_of_type(std::string_view type);
unsigned kinds_of_value(const nlohmann::ordered_json& value);  // 3.0 is an integer

using PatternCheck = std::function<Status(std::string_view where, const std::string& pattern)>;
// invalid_argument, naming keyword and place: it is refused, or has not its form. `check_pattern`
// judges each pattern.
Status check_schema_keywords(const nlohmann::ordered_json& schema, const std::string& where,
                             const PatternCheck& check_pattern);
// Whether a keyword's value has its form; no look is taken into schemas in it.
bool has_form(const SchemaKeyword& keyword, const nlohmann::ordered_json& value);

}  // namespace tandem
