#include "engine/constraint/schema/schema_keywords.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;
using Does = SchemaKeyword::Does;
using Form = SchemaKeyword::Form;

// docs/rest.md describes this table.
constexpr SchemaKeyword kKeywords[] = {
    {"type", Does::enforced, Form::types},
    {"enum", Does::enforced, Form::values},
    {"const", Does::enforced},

    {"minLength", Does::enforced, Form::count, kString},
    {"maxLength", Does::enforced, Form::count, kString},
    {"pattern", Does::enforced, Form::pattern, kString},
    {"format", Does::enforced, Form::text, kString},

    {"minimum", Does::enforced, Form::number, kNumber},
    {"maximum", Does::enforced, Form::number, kNumber},
    {"exclusiveMinimum", Does::enforced, Form::number, kNumber},
    {"exclusiveMaximum", Does::enforced, Form::number, kNumber},
    {"multipleOf", Does::enforced, Form::step, kNumber},

    {"items", Does::enforced, Form::items, kArray},
    {"prefixItems", Does::enforced, Form::schemas, kArray},
    {"additionalItems", Does::enforced, Form::schema},
    {"minItems", Does::enforced, Form::count, kArray},
    {"maxItems", Does::enforced, Form::count, kArray},
    {"uniqueItems", Does::refused, Form::flag, kArray},  // unless false
    {"contains", Does::refused},
    {"minContains", Does::refused},
    {"maxContains", Does::refused},
    {"unevaluatedItems", Does::refused, Form::schema, kArray},  // unless true

    {"properties", Does::enforced, Form::schemas_by_name, kObject},
    {"required", Does::enforced, Form::texts, kObject},
    {"additionalProperties", Does::enforced, Form::schema, kObject},
    {"patternProperties", Does::enforced, Form::patterns_to_schemas, kObject},
    {"propertyNames", Does::enforced, Form::schema, kObject},
    {"minProperties", Does::enforced, Form::count, kObject},
    {"maxProperties", Does::enforced, Form::count, kObject},
    {"unevaluatedProperties", Does::enforced, Form::flag, kObject},
    {"dependentRequired", Does::refused},
    {"dependentSchemas", Does::refused},
    {"dependencies", Does::refused},

    {"$ref", Does::enforced, Form::reference},
    {"$defs", Does::enforced, Form::schemas_by_name},
    {"definitions", Does::enforced, Form::schemas_by_name},
    {"allOf", Does::enforced, Form::schemas},
    {"anyOf", Does::enforced, Form::schemas},
    {"oneOf", Does::enforced, Form::schemas},
    {"not", Does::refused},
    {"if", Does::refused},
    {"then", Does::refused},
    {"else", Does::refused},
    {"$dynamicRef", Does::refused},
    {"$recursiveRef", Does::refused},

    {"$schema", Does::describes},
    {"$id", Does::describes},
    {"$anchor", Does::describes},
    {"$dynamicAnchor", Does::describes},
    {"$recursiveAnchor", Does::describes},
    {"$vocabulary", Does::describes},
    {"$comment", Does::describes},
    {"title", Does::describes},
    {"description", Does::describes},
    {"default", Does::describes},
    {"examples", Does::describes},
    {"deprecated", Does::describes},
    {"readOnly", Does::describes},
    {"writeOnly", Does::describes},
    {"contentEncoding", Does::describes},
    {"contentMediaType", Does::describes},
    {"contentSchema", Does::describes},
};

bool is_schema(const Json& value) {
  return value.is_object() || value.is_boolean();
}
bool is_count(const Json& value) {
  if (value.is_number_integer()) return value >= 0;
  if (!value.is_number_float()) return false;
  const auto number = value.get<double>();
  return number >= 0 && number == std::floor(number);
}
template <typename Is>
bool all(const Json& list, Is is) {
  return std::all_of(list.begin(), list.end(), is);
}
bool is_text_value(const Json& value) {
  return value.is_string();
}
bool is_type(const Json& value) {
  return value.is_string() && kinds_of_type(value.get_ref<const std::string&>()) != 0;
}

const char* words_of(Form form) {
  switch (form) {
    case Form::schema:
      return "a schema: an object, true or false";
    case Form::schemas:
      return "a list of schemas that is not empty";
    case Form::schemas_by_name:
    case Form::patterns_to_schemas:
      return "an object of schemas";
    case Form::items:
      return "a schema or a list of them";
    case Form::types:
      return "of null, boolean, integer, number, string, array and object, or a list of those";
    case Form::values:
      return "a list that is not empty";
    case Form::count:
      return "an integer, 0 or more";
    case Form::number:
      return "a number";
    case Form::step:
      return "a number above 0";
    case Form::flag:
      return "true or false";
    case Form::text:
    case Form::pattern:
      return "a string";
    case Form::texts:
      return "a list of strings";
    case Form::reference:
      return "a reference within the schema: \"#\" or \"#/...\"; a URI is not fetched";
    case Form::anything:
      break;
  }
  return "something else";
}

bool is_harmless(std::string_view name, const Json& value) {
  return (name == "uniqueItems" && value == false) || (name == "unevaluatedItems" && value == true);
}

}  // namespace

std::span<const SchemaKeyword> schema_keywords() {
  return kKeywords;
}

const SchemaKeyword* find_schema_keyword(std::string_view name) {
  const auto* at = std::ranges::find_if(
      kKeywords, [name](const SchemaKeyword& keyword) { return keyword.name == name; });
  return at == std::end(kKeywords) ? nullptr : at;
}

unsigned kinds_of_type(std::string_view type) {
  constexpr std::pair<std::string_view, unsigned> kTypes[] = {
      {"null", kNull},     {"boolean", kBoolean}, {"integer", kInteger}, {"number", kNumber},
      {"string", kString}, {"array", kArray},     {"object", kObject}};
  for (const auto& [name, kinds] : kTypes) {
    if (name == type) return kinds;
  }
  return 0;
}

unsigned kinds_of_value(const Json& value) {
  if (value.is_null()) return kNull;
  if (value.is_boolean()) return kBoolean;
  if (value.is_string()) return kString;
  if (value.is_array()) return kArray;
  if (value.is_object()) return kObject;
  if (value.is_number_integer()) return kInteger;
  const auto number = value.get<double>();
  return number == std::floor(number) ? kInteger : kFraction;
}

bool has_form(const SchemaKeyword& keyword, const Json& value) {
  switch (keyword.form) {
    case Form::anything:
      return true;
    case Form::schema:
      return is_schema(value);
    case Form::schemas:
      return value.is_array() && !value.empty() && all(value, is_schema);
    case Form::schemas_by_name:
    case Form::patterns_to_schemas:
      return value.is_object() && all(value, is_schema);
    case Form::items:
      return is_schema(value) || (value.is_array() && all(value, is_schema));
    case Form::types:
      return is_type(value) || (value.is_array() && !value.empty() && all(value, is_type));
    case Form::values:
      return value.is_array() && !value.empty();
    case Form::count:
      return is_count(value);
    case Form::number:
      return value.is_number();
    case Form::step:
      return value.is_number() && value.get<double>() > 0;
    case Form::flag:
      return value.is_boolean();
    case Form::text:
    case Form::pattern:
      return value.is_string();
    case Form::texts:
      return value.is_array() && all(value, is_text_value);
    case Form::reference:
      return value.is_string() && value.get_ref<const std::string&>().starts_with('#');
  }
  return false;
}

Status check_schema_keywords(const Json& schema, const std::string& where,
                             const PatternCheck& check_pattern) {
  if (schema.is_boolean()) return {};
  if (!schema.is_object()) return invalid("{} is no schema: an object, true or false", where);
  for (const auto& [name, value] : schema.items()) {
    const SchemaKeyword* keyword = find_schema_keyword(name);
    if (keyword == nullptr || keyword->does == Does::describes) continue;
    const std::string here = fmt::format("{}/{}", where, name);
    if (keyword->does == Does::refused && !is_harmless(name, value)) {
      return invalid("{} is not supported", here);
    }
    if (!has_form(*keyword, value)) return invalid("{} must be {}", here, words_of(keyword->form));
    const auto check = [&](const Json& inner, const std::string& place) {
      return check_schema_keywords(inner, place, check_pattern);
    };
    switch (keyword->form) {
      case Form::pattern:
        TANDEM_TRY(check_pattern(here, value.get_ref<const std::string&>()));
        break;
      case Form::schemas_by_name:
      case Form::patterns_to_schemas:
        for (const auto& [key, inner] : value.items()) {
          if (keyword->form == Form::patterns_to_schemas) TANDEM_TRY(check_pattern(here, key));
          TANDEM_TRY(check(inner, fmt::format("{}/{}", here, key)));
        }
        break;
      case Form::schema:
        TANDEM_TRY(check(value, here));
        break;
      case Form::schemas:
      case Form::items:
        if (!value.is_array()) {
          TANDEM_TRY(check(value, here));
          break;
        }
        for (const Json& inner : value) TANDEM_TRY(check(inner, here));
        break;
      default:
        break;
    }
  }
  return {};
}

}  // namespace tandem
