// Typed access to the fields of a JSON object, with bounds; messages name the field.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/loader/json.h"

namespace tandem {

// Reads from `object`, which it does not own. A null field counts as absent, because transformers
// and PEFT write defaults as null.
template <typename J>
class JsonFields {
 public:
  explicit JsonFields(const J& object) : object_(object) {}

  const J* find(std::string_view name) const {
    const auto it = object_.find(std::string(name));
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }

  // Also of a null field.
  bool has(std::string_view name) const { return object_.contains(std::string(name)); }

  Result<std::optional<std::int64_t>> integer(std::string_view name, std::int64_t min,
                                              std::int64_t max) const {
    const J* const field = find(name);
    if (field == nullptr) return std::optional<std::int64_t>();
    TANDEM_ASSIGN(const std::int64_t value, as_integer(name, *field, min, max));
    return std::optional(value);
  }

  Result<std::int64_t> required_integer(std::string_view name, std::int64_t min,
                                        std::int64_t max) const {
    const J* const field = find(name);
    if (field == nullptr) return invalid("'{}' is missing", name);
    return as_integer(name, *field, min, max);
  }

  // Requires min < value <= max.
  Result<std::optional<double>> number(std::string_view name, double min, double max) const {
    const J* const field = find(name);
    if (field == nullptr) return std::optional<double>();
    if (!field->is_number()) return invalid("'{}' must be a number", name);
    const double value = field->template get<double>();
    if (!(value > min && value <= max)) {
      return invalid("'{}' is {}, it must be above {} and at most {}", name, value, min, max);
    }
    return std::optional(value);
  }

  Result<double> required_number(std::string_view name, double min, double max) const {
    TANDEM_ASSIGN(const std::optional<double> value, number(name, min, max));
    if (!value) return invalid("'{}' is missing", name);
    return *value;
  }

  Result<bool> boolean(std::string_view name, bool fallback) const {
    const J* const field = find(name);
    if (field == nullptr) return fallback;
    if (!field->is_boolean()) return invalid("'{}' must be true or false", name);
    return field->template get<bool>();
  }

  // Empty if absent.
  Result<std::string> text(std::string_view name) const {
    const J* const field = find(name);
    if (field == nullptr) return std::string();
    if (!field->is_string()) return invalid("'{}' must be a text", name);
    return field->template get<std::string>();
  }

  static Result<std::int64_t> as_integer(std::string_view name, const J& field, std::int64_t min,
                                         std::int64_t max) {
    if (!field.is_number_integer()) return invalid("'{}' must be a whole number", name);
    // An unsigned number beyond the signed range would become negative.
    const bool too_big = field.is_number_unsigned() && field.template get<std::uint64_t>() >
                                                           static_cast<std::uint64_t>(INT64_MAX);
    const auto value = too_big ? INT64_MAX : field.template get<std::int64_t>();
    if (value < min || value > max) {
      return invalid("'{}' is {}, it must be from {} to {}", name, field.dump(), min, max);
    }
    return value;
  }

 private:
  const J& object_;
};

}  // namespace tandem
