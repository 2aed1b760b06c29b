// The rules of the table of request fields, as text and as JSON schemas.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "engine/server/messages/request/request_fields.h"

namespace tandem {

std::string rule_of(const RequestField& field) {
  using Kind = RequestField::Kind;
  switch (field.kind) {
    case Kind::boolean:
      return "true or false";
    case Kind::text:
      return "a string";
    case Kind::other:
      return field.rule;
    case Kind::integer:
    case Kind::number:
      break;
  }
  const char* what = field.kind == Kind::integer ? "an integer" : "a number";
  if (field.max == kMaxInt64) return "an integer of 64 bits";
  return field.above_min
             ? fmt::format("{} above {:.15g} and up to {:.15g}", what, field.min, field.max)
             : fmt::format("{} from {:.15g} to {:.15g}", what, field.min, field.max);
}

nlohmann::json schema_of(const RequestField& field) {
  using nlohmann::json;
  using Kind = RequestField::Kind;
  json schema = field.kind == Kind::other     ? json::parse(field.schema)
                : field.kind == Kind::boolean ? json{{"type", "boolean"}}
                : field.kind == Kind::text    ? json{{"type", "string"}}
                : field.kind == Kind::integer ? json{{"type", "integer"}}
                                              : json{{"type", "number"}};
  if (field.kind == Kind::integer && field.max == kMaxInt64) {
    schema["format"] = "int64";
  } else if (field.kind == Kind::integer) {
    schema["minimum"] = static_cast<std::int64_t>(field.min);
    schema["maximum"] = static_cast<std::int64_t>(field.max);
  } else if (field.kind == Kind::number) {
    schema[field.above_min ? "exclusiveMinimum" : "minimum"] = field.min;
    schema["maximum"] = field.max;
  }
  schema["description"] = field.summary;
  return schema;
}

std::optional<std::int64_t> as_integer(const nlohmann::json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  constexpr double kExact = 9007199254740992.0;  // 2^53: a double skips integers above it
  if (!(std::abs(number) <= kExact) || number != std::trunc(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace tandem
