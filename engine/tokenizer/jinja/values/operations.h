// Python's built-in operations on values. All charge the budget for the data that they read.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/tokenizer/jinja/values/value.h"

namespace tandem::jinja {

inline bool is_undefined(const Value& v) {
  return v.type() == Value::Type::undefined;
}
inline bool is_none(const Value& v) {
  return v.type() == Value::Type::none;
}
inline bool is_bool(const Value& v) {
  return v.type() == Value::Type::boolean;
}
inline bool is_int(const Value& v) {
  return v.type() == Value::Type::integer;
}
inline bool is_float(const Value& v) {
  return v.type() == Value::Type::floating;
}
inline bool is_number(const Value& v) {
  return is_bool(v) || is_int(v) || is_float(v);
}
inline bool is_string(const Value& v) {
  return v.type() == Value::Type::string;
}

// Charges for reading a whole text, or each item once.
void spend_for(const Value& v);

const char* type_name(const Value& v);  // Python's name of the type
int depth_of(const Value& v);
bool truthy(const Value& v);
// Converts bool, int and float; throws Error for others.
double double_of(const Value& v);
// Converts bool and int; throws Error for others.
std::int64_t integer_of(const Value& v);
// In characters or items. Throws Error if the value has no length.
std::size_t length_of(const Value& v);
// Returns the items for a loop; throws Error if the value is not iterable.
std::shared_ptr<const Sequence> iterate(const Value& v);

bool equals(const Value& a, const Value& b);
// Throws Error if Python cannot order the two.
bool less(const Value& a, const Value& b);
bool contains(const Value& container, const Value& item);

}  // namespace tandem::jinja
