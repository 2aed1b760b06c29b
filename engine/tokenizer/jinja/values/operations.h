// What Python's built-in operations do with values. All pay for what they look at.
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

// For what looks at all of a text, or at each item once.
void spend_for(const Value& v);

const char* type_name(const Value& v);  // as Python calls it
int depth_of(const Value& v);
bool truthy(const Value& v);
// bool, int and float, as a number; throws Error for others.
double double_of(const Value& v);
// bool and int; throws Error for others.
std::int64_t integer_of(const Value& v);
// In characters or items. Throws Error if there is none.
std::size_t length_of(const Value& v);
// The items that a loop sees; throws Error if the value cannot be iterated.
std::shared_ptr<const Sequence> iterate(const Value& v);

bool equals(const Value& a, const Value& b);
// Throws Error when Python cannot order the two.
bool less(const Value& a, const Value& b);
bool contains(const Value& container, const Value& item);

}  // namespace tandem::jinja
