// Equality, order and membership. Each visit of a value is charged as a step, because values can
// share their parts, so that there are many more visits than values.
#include <fmt/format.h>

#include <algorithm>

#include "engine/tokenizer/jinja/values/error.h"
#include "engine/tokenizer/jinja/values/operations.h"
#include "engine/tokenizer/jinja/values/search.h"

namespace tandem::jinja {
namespace {

bool same_items(const Sequence& a, const Sequence& b) {
  return a.is_tuple == b.is_tuple &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), equals);
}

bool same_members(const Dict& a, const Dict& b) {
  return a.items.size() == b.items.size() &&
         std::all_of(a.items.begin(), a.items.end(), [&](const auto& item) {
           const Value* found = b.find(item.first);
           return found != nullptr && equals(*found, item.second);
         });
}

}  // namespace

bool equals(const Value& a, const Value& b) {
  spend(kStepUnits);
  if (is_number(a) && is_number(b)) {
    if (is_float(a) || is_float(b)) return double_of(a) == double_of(b);
    return integer_of(a) == integer_of(b);
  }
  if (a.type() != b.type()) return false;
  if (is_undefined(a) || is_none(a)) return true;
  if (const String* s = a.as<String>()) {
    spend(s->size());
    return *s == *b.as<String>();
  }
  if (const Sequence* s = a.as<Sequence>()) return same_items(*s, *b.as<Sequence>());
  if (const Dict* d = a.as<Dict>()) return same_members(*d, *b.as<Dict>());
  return a.as<Function>() == b.as<Function>() && a.as<Namespace>() == b.as<Namespace>() &&
         a.as<Loop>() == b.as<Loop>();
}

bool less(const Value& a, const Value& b) {
  spend(kStepUnits);
  if (is_number(a) && is_number(b)) {
    if (is_float(a) || is_float(b)) return double_of(a) < double_of(b);
    return integer_of(a) < integer_of(b);
  }
  if (is_string(a) && is_string(b)) {
    spend(a.as<String>()->size());
    return *a.as<String>() < *b.as<String>();  // by code point
  }
  const Sequence* x = a.as<Sequence>();
  const Sequence* y = b.as<Sequence>();
  if (x == nullptr || y == nullptr || x->is_tuple != y->is_tuple)
    throw Error(fmt::format("{} and {} cannot be ordered", type_name(a), type_name(b)));
  const std::size_t n = std::min(x->items.size(), y->items.size());
  for (std::size_t i = 0; i < n; ++i)
    if (!equals(x->items[i], y->items[i])) return less(x->items[i], y->items[i]);
  return x->items.size() < y->items.size();
}

bool contains(const Value& container, const Value& item) {
  if (is_undefined(container)) return false;
  if (const String* s = container.as<String>()) {
    if (!is_string(item))
      throw Error(fmt::format("'in' of a string needs a string, not {}", type_name(item)));
    return find_first(*s, *item.as<String>()) != String::npos;
  }
  if (const Dict* d = container.as<Dict>()) return d->find(item) != nullptr;
  const Sequence* s = container.as<Sequence>();
  if (s == nullptr) throw Error(fmt::format("'in' cannot look into a {}", type_name(container)));
  return std::any_of(s->items.begin(), s->items.end(),
                     [&](const Value& v) { return equals(v, item); });
}

}  // namespace tandem::jinja
