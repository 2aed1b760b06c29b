// Access to parts of a value by name, key or range.
#pragma once

#include <string_view>

#include "engine/tokenizer/jinja/values/value.h"

namespace tandem::jinja {

// object.name and object[key], with Jinja's fallbacks from one to the other; undefined if there is
// no such part. Throws Error on undefined objects and on Python methods that are not implemented.
Value get_attribute(const Value& object, std::string_view name);
Value get_item(const Value& object, const Value& key);
// object[start:stop:step]; None represents an omitted part.
Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step);

// Returns the method of a built-in type, bound to `self`; undefined if it has no such method.
Value find_method(const Value& self, std::string_view name);

}  // namespace tandem::jinja
