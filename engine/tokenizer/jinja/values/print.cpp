#include "engine/tokenizer/jinja/values/print.h"

#include <fmt/format.h>

#include "engine/tokenizer/jinja/values/error.h"
#include "engine/tokenizer/jinja/values/operations.h"
#include "engine/tokenizer/jinja/values/text.h"

namespace tandem::jinja {
namespace {

void append_repr(const Value& v, String& out);

void append_items(const Sequence& sequence, String& out) {
  out += sequence.is_tuple ? '(' : '[';
  bool first = true;
  for (const Value& item : sequence.items) {
    if (!first) out += ", ";
    first = false;
    append_repr(item, out);
  }
  if (sequence.is_tuple && sequence.items.size() == 1) out += ',';
  out += sequence.is_tuple ? ')' : ']';
}

void append_members(const Dict& dict, String& out) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : dict.items) {
    if (!first) out += ", ";
    first = false;
    append_repr(key, out);
    out += ": ";
    append_repr(value, out);
  }
  out += '}';
}

void append_repr(const Value& v, String& out) {
  spend(kStepUnits);
  if (is_undefined(v)) {
    out += "Undefined";
  } else if (is_none(v)) {
    out += "None";
  } else if (is_bool(v)) {
    out += truthy(v) ? "True" : "False";
  } else if (is_int(v)) {
    out += fmt::format_int(integer_of(v)).c_str();
  } else if (is_float(v)) {
    out += float_text(double_of(v));
  } else if (const String* s = v.as<String>()) {
    out += python_quoted(*s);
  } else if (const Sequence* sequence = v.as<Sequence>()) {
    append_items(*sequence, out);
  } else if (const Dict* dict = v.as<Dict>()) {
    append_members(*dict, out);
  } else {
    throw Error(fmt::format("a {} cannot be printed", type_name(v)));
  }
}

}  // namespace

String str(const Value& v) {
  if (is_undefined(v)) return {};
  if (const String* s = v.as<String>()) return *s;
  return repr(v);
}

String repr(const Value& v) {
  String out;
  append_repr(v, out);
  return out;
}

}  // namespace tandem::jinja
