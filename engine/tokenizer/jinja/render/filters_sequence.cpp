// Filters on lists, dicts and other iterable values.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/parse_number.h"
#include "engine/tokenizer/jinja/render/access.h"
#include "engine/tokenizer/jinja/render/builtins.h"
#include "engine/tokenizer/jinja/render/filters.h"
#include "engine/tokenizer/jinja/render/interpreter.h"
#include "engine/tokenizer/jinja/values/print.h"
#include "engine/tokenizer/jinja/values/text.h"

namespace tandem::jinja {
namespace {

// Resolves the argument "attribute" of a filter: a dotted path of names and indexes, or an index.
// None returns the item itself.
Value follow(const Value& item, const Value& attribute) {
  if (is_none(attribute)) return item;
  if (is_int(attribute)) return get_item(item, attribute);
  if (!is_string(attribute)) throw Error("attribute must be a string or a number");
  Value value = item;
  std::string_view path = *attribute.as<String>();
  while (true) {
    const std::size_t dot = path.find('.');
    const String part(path.substr(0, dot));
    const std::int64_t index = parse_number<std::int64_t>(part).value_or(-1);
    value = get_item(value, index >= 0 ? Value(index) : Value(part));
    if (dot == std::string_view::npos) return value;
    path = path.substr(dot + 1);
  }
}

// Sorting and uniqueness ignore the case of text by default.
Value fold(const Value& v, bool case_sensitive) {
  return !case_sensitive && is_string(v) ? Value(to_lower(*v.as<String>())) : v;
}

Value length(Interpreter&, const Value& input, Args& args) {
  ArgReader(args, "length").done();
  return Value(static_cast<std::int64_t>(length_of(input)));
}

Value first(Interpreter&, const Value& input, Args& args) {
  ArgReader(args, "first").done();
  const auto items = iterate(input);
  return items->items.empty() ? make_undefined("the first item") : items->items.front();
}

Value last(Interpreter&, const Value& input, Args& args) {
  ArgReader(args, "last").done();
  const auto items = iterate(input);
  return items->items.empty() ? make_undefined("the last item") : items->items.back();
}

Value to_list(Interpreter&, const Value& input, Args& args) {
  ArgReader(args, "list").done();
  const auto items = iterate(input);
  spend_steps(items->items.size());
  return make_list(items->items);
}

Value reverse(Interpreter&, const Value& input, Args& args) {
  ArgReader(args, "reverse").done();
  if (is_string(input)) {
    const Value step(std::int64_t{-1});
    return get_slice(input, Value(), Value(), step);
  }
  Values items = iterate(input)->items;
  spend_steps(items.size());
  std::reverse(items.begin(), items.end());
  return make_list(std::move(items));
}

Value join(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "join");
  const String separator = str(reader.next("d", Value("")));
  const Value attribute = reader.next("attribute", Value());
  reader.done();
  String text;
  bool first_item = true;
  const auto source = iterate(input);  // keeps the items alive during the loop
  for (const Value& item : source->items) {
    spend_steps(1);
    if (!first_item) text += separator;
    first_item = false;
    text += str(follow(item, attribute));
  }
  return Value(std::move(text));
}

Value items(Interpreter&, const Value& input, Args& args) {
  ArgReader(args, "items").done();
  return items_of(input);
}

Value dictsort(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "dictsort");
  const bool case_sensitive = truthy(reader.next("case_sensitive", Value(false)));
  const String by = str(reader.next("by", Value("key")));
  const bool descending = truthy(reader.next("reverse", Value(false)));
  reader.done();
  if (by != "key" && by != "value") throw Error("dictsort: by must be key or value");
  if (input.as<Dict>() == nullptr) throw Error("dictsort needs a dict");
  Values pairs = items_of(input).as<Sequence>()->items;
  spend_steps(pairs.size() * 16);
  auto key = [&](const Value& pair) {
    return fold(pair.as<Sequence>()->items[by == "key" ? 0 : 1], case_sensitive);
  };
  std::stable_sort(pairs.begin(), pairs.end(), [&](const Value& a, const Value& b) {
    return descending ? less(key(b), key(a)) : less(key(a), key(b));
  });
  return make_list(std::move(pairs));
}

Value sort(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "sort");
  const bool descending = truthy(reader.next("reverse", Value(false)));
  const bool case_sensitive = truthy(reader.next("case_sensitive", Value(false)));
  const Value attribute = reader.next("attribute", Value());
  reader.done();
  Values sorted = iterate(input)->items;
  spend_steps(sorted.size() * 16);
  auto key = [&](const Value& v) { return fold(follow(v, attribute), case_sensitive); };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Value& a, const Value& b) {
    return descending ? less(key(b), key(a)) : less(key(a), key(b));
  });
  return make_list(std::move(sorted));
}

Value unique(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "unique");
  const bool case_sensitive = truthy(reader.next("case_sensitive", Value(false)));
  const Value attribute = reader.next("attribute", Value());
  reader.done();
  Dict seen;  // refuses values that cannot be keys, as Python does
  Values kept;
  const auto source = iterate(input);  // keeps the items alive during the loop
  for (const Value& item : source->items) {
    spend_steps(4);
    const Value key = fold(follow(item, attribute), case_sensitive);
    if (seen.find(key) != nullptr) continue;
    seen.set(key, Value());
    kept.push_back(item);
  }
  return make_list(std::move(kept));
}

Value extreme(const Value& input, Args& args, const char* name, bool want_max) {
  ArgReader reader(args, name);
  const bool case_sensitive = truthy(reader.next("case_sensitive", Value(false)));
  const Value attribute = reader.next("attribute", Value());
  reader.done();
  const auto all = iterate(input);
  if (all->items.empty()) return make_undefined(name);
  auto key = [&](const Value& v) { return fold(follow(v, attribute), case_sensitive); };
  const Value* best = &all->items.front();
  for (const Value& item : all->items)
    if (want_max ? less(key(*best), key(item)) : less(key(item), key(*best))) best = &item;
  return *best;
}
Value min(Interpreter&, const Value& input, Args& args) {
  return extreme(input, args, "min", false);
}
Value max(Interpreter&, const Value& input, Args& args) {
  return extreme(input, args, "max", true);
}

Value sum(Interpreter& in, const Value& input, Args& args) {
  ArgReader reader(args, "sum");
  const Value attribute = reader.next("attribute", Value());
  Value total = reader.next("start", Value(std::int64_t{0}));
  reader.done();
  const auto source = iterate(input);  // keeps the items alive during the loop
  for (const Value& item : source->items) {
    spend_steps(1);
    total = in.add(total, follow(item, attribute));
  }
  return total;
}

std::int64_t take_count(ArgReader& reader, const char* name) {
  const std::int64_t count = integer_of(reader.require(name));
  if (count < 1) throw Error(fmt::format("{} must be at least 1", name));
  return count;
}

Value batch(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "batch");
  const auto size = static_cast<std::size_t>(take_count(reader, "linecount"));
  const Value fill = reader.next("fill_with", Value());
  reader.done();
  const auto source = iterate(input);  // keeps the items alive during the loop
  Values rows;
  Values row;
  for (const Value& item : source->items) {
    spend_steps(1);
    row.push_back(item);
    if (row.size() == size) rows.push_back(make_list(std::exchange(row, {})));
  }
  if (row.empty()) return make_list(std::move(rows));
  while (!is_none(fill) && row.size() < size) {
    spend_steps(1);
    row.push_back(fill);
  }
  rows.push_back(make_list(std::move(row)));
  return make_list(std::move(rows));
}

// Splits into a number of columns; if the items do not divide evenly, the first columns have one
// more.
Value slice(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "slice");
  const auto columns = static_cast<std::size_t>(take_count(reader, "slices"));
  const Value fill = reader.next("fill_with", Value());
  reader.done();
  const auto source = iterate(input);
  const Values& all = source->items;
  const std::size_t longer = all.size() % columns;
  Values result;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < columns; ++i) {
    const std::size_t size = all.size() / columns + (i < longer ? 1 : 0);
    spend_steps(size + 1);
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(begin);
    Values column(from, from + static_cast<std::ptrdiff_t>(size));
    if (!is_none(fill) && i >= longer) column.push_back(fill);
    result.push_back(make_list(std::move(column)));
    begin += size;
  }
  return make_list(std::move(result));
}

Value groupby(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "groupby");
  const Value attribute = reader.require("attribute");
  const Value fallback = reader.next("default", Value());
  const bool case_sensitive = truthy(reader.next("case_sensitive", Value(false)));
  reader.done();
  struct Keyed {
    Value folded, original, item;
  };
  std::vector<Keyed, Metered<Keyed>> sorted;
  const auto source = iterate(input);
  for (const Value& item : source->items) {
    spend_steps(16);
    Value key = follow(item, attribute);
    if (is_undefined(key) && !is_none(fallback)) key = fallback;
    sorted.push_back({fold(key, case_sensitive), key, item});
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Keyed& a, const Keyed& b) { return less(a.folded, b.folded); });
  Values groups;
  for (std::size_t begin = 0; begin < sorted.size();) {
    Values members;
    std::size_t end = begin;
    for (; end < sorted.size() && equals(sorted[begin].folded, sorted[end].folded); ++end)
      members.push_back(sorted[end].item);
    groups.push_back(make_group(sorted[begin].original, make_list(std::move(members))));
    begin = end;
  }
  return make_list(std::move(groups));
}

// foo.bar without a lookup of the dict's own keys.
Value attr(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "attr");
  const Value name = reader.require("name");
  reader.done();
  const String text = str(name);
  return input.as<Dict>() != nullptr ? find_method(input, text) : get_attribute(input, text);
}

// Takes the name of a filter or test from the first argument, and returns the arguments for it.
Args take_inner(Args& args, const char* who, String& name) {
  ArgReader reader(args, who);
  const Value given = reader.require("name");
  if (!is_string(given)) throw Error(fmt::format("{} needs the name of a test or filter", who));
  name = *given.as<String>();
  Args inner;
  inner.positional = reader.rest();
  inner.named = args.named;
  return inner;
}

Value map(Interpreter& in, const Value& input, Args& args) {
  const auto source = iterate(input);
  Values mapped;
  if (args.positional.empty()) {
    ArgReader reader(args, "map");
    const Value attribute = reader.require("attribute");
    const Value fallback = reader.next("default", make_undefined("default"));
    reader.done();
    for (const Value& item : source->items) {
      spend_steps(1);
      const Value found = follow(item, attribute);
      mapped.push_back(is_undefined(found) && !is_undefined(fallback) ? fallback : found);
    }
    return make_list(std::move(mapped));
  }
  String name;
  const Args inner = take_inner(args, "map", name);
  const FilterFunction filter = find_filter(name);
  if (filter == nullptr) throw Error(fmt::format("filter \"{}\" is not supported", name));
  for (const Value& item : source->items) {
    spend_steps(1);
    spend_for(item);
    Args copy = inner;
    mapped.push_back(filter(in, item, copy));
  }
  return make_list(std::move(mapped));
}

// select, reject, selectattr and rejectattr: items (or an attribute of theirs) that a test accepts,
// or that are true if no test is named.
Value choose(Interpreter& in, const Value& input, Args& args, bool by_attribute, bool keep) {
  Value attribute;
  if (by_attribute) {
    if (args.positional.empty()) throw Error("selectattr needs the name of an attribute");
    attribute = args.positional.front();
    args.positional.erase(args.positional.begin());
  }
  TestFunction test = nullptr;
  Args inner;
  if (!args.positional.empty()) {
    String name;
    inner = take_inner(args, "select", name);
    test = find_test(name);
    if (test == nullptr) throw Error(fmt::format("test \"{}\" is not supported", name));
  }
  Values kept;
  const auto source = iterate(input);  // keeps the items alive during the loop
  for (const Value& item : source->items) {
    spend_steps(1);
    const Value subject = follow(item, attribute);
    Args copy = inner;
    const bool accepted = test == nullptr ? truthy(subject) : test(in, subject, copy);
    if (accepted == keep) kept.push_back(item);
  }
  return make_list(std::move(kept));
}
Value select(Interpreter& in, const Value& input, Args& args) {
  return choose(in, input, args, false, true);
}
Value reject(Interpreter& in, const Value& input, Args& args) {
  return choose(in, input, args, false, false);
}
Value selectattr(Interpreter& in, const Value& input, Args& args) {
  return choose(in, input, args, true, true);
}
Value rejectattr(Interpreter& in, const Value& input, Args& args) {
  return choose(in, input, args, true, false);
}

}  // namespace

const std::vector<std::pair<std::string_view, FilterFunction>>& sequence_filters() {
  static const std::vector<std::pair<std::string_view, FilterFunction>> kFilters = {
      {"length", length},
      {"count", length},
      {"first", first},
      {"last", last},
      {"list", to_list},
      {"reverse", reverse},
      {"join", join},
      {"items", items},
      {"dictsort", dictsort},
      {"sort", sort},
      {"unique", unique},
      {"min", min},
      {"max", max},
      {"sum", sum},
      {"batch", batch},
      {"slice", slice},
      {"groupby", groupby},
      {"attr", attr},
      {"map", map},
      {"select", select},
      {"reject", reject},
      {"selectattr", selectattr},
      {"rejectattr", rejectattr},
  };
  return kFilters;
}

}  // namespace tandem::jinja
