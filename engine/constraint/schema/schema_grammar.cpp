#include "engine/constraint/schema/schema_grammar.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/constraint/schema/member_rules.h"
#include "engine/constraint/schema/string_formats.h"

namespace tandem {
namespace {

using Fit = SchemaReader::Fit;

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr std::size_t kMostFirstItems = 500;  // limit on leading items with schemas of their own
constexpr std::int64_t kMostCount = 1'000'000;

const nlohmann::ordered_json* member_of(const nlohmann::ordered_json& schema, const char* name) {
  const auto at = schema.find(name);
  return at == schema.end() ? nullptr : &*at;
}

// Returns the list of anyOf if the schema contains nothing else.
const nlohmann::ordered_json* anything_but_any_of(const Schemas& schemas) {
  if (schemas.size() != 1 || !schemas.front()->is_object()) return nullptr;
  const nlohmann::ordered_json* result = nullptr;
  for (const auto& [name, value] : schemas.front()->items()) {
    const SchemaKeyword* keyword = find_schema_keyword(name);
    if (name == "anyOf" && has_form(*keyword, value)) {
      result = &value;
    } else if (keyword != nullptr && keyword->does == SchemaKeyword::Does::enforced &&
               name != "$defs" && name != "definitions") {
      return nullptr;
    }
  }
  return result;
}

// No answer has more items than the limit, so higher bounds count as unlimited.
Lengths counted(const Lengths& lengths) {
  return {lengths.least, lengths.most > kMostCount ? -1 : lengths.most};
}

}  // namespace

SchemaGrammar::SchemaGrammar(const nlohmann::ordered_json& document, bool lenient)
    : reader_(document, lenient), document_(&document), root_(rules_.add()), json_(rules_) {}

Result<std::string> SchemaGrammar::write() {
  TANDEM_ASSIGN(TextExpression root, value({document_}));
  rules_.define(root_, std::move(root));
  while (!to_do_.empty()) {
    const auto [schemas, rule] = std::move(to_do_.front());
    to_do_.pop_front();
    TANDEM_ASSIGN(TextExpression says, alternatives(schemas));
    rules_.define(rule, std::move(says));
    if (rules_.has_too_many()) {
      return invalid("it takes more than {} rules", GrammarRules::kMostRules);
    }
  }
  return rules_.write(kMostBytes);
}

Result<TextExpression> SchemaGrammar::value(const Schemas& schemas) {
  TANDEM_ASSIGN(Schemas canonical, reader_.canonical(schemas));
  auto [at, is_new] = known_.try_emplace(std::move(canonical), -1);
  if (is_new) {
    at->second = rules_.add();
    to_do_.emplace_back(at->first, at->second);
  }
  return by_rule(at->second);
}

Result<TextExpression> SchemaGrammar::alternatives(const Schemas& schemas) {
  TANDEM_ASSIGN(const std::vector<SchemaShape> shapes, reader_.shapes_of(schemas));
  std::vector<TextExpression> result;
  // Each alternative gets its own rule, which other schemas can share.
  if (const nlohmann::ordered_json* any = anything_but_any_of(schemas)) {
    for (const nlohmann::ordered_json& each : *any) {
      TANDEM_ASSIGN(TextExpression one, value({&each}));
      result.push_back(std::move(one));
    }
    return any_of(std::move(result));
  }
  for (const SchemaShape& shape : shapes) {
    TANDEM_ASSIGN(TextExpression one, text_of(shape));
    result.push_back(std::move(one));
  }
  return any_of(std::move(result));
}

TextExpression SchemaGrammar::literals(const SchemaShape& shape) {
  std::vector<TextExpression> result;
  for (const nlohmann::ordered_json* each : *shape.literals) {
    const Fit fit = reader_.fit(*each, shape);
    if (fit == Fit::yes || (fit == Fit::unsure && reader_.is_lenient())) {
      result.push_back(json_.literal_of(*each));
    }
  }
  return any_of(std::move(result));
}

Result<TextExpression> SchemaGrammar::text_of(const SchemaShape& shape) {
  if (shape.literals) return literals(shape);
  for (const Lengths* length : {&shape.length, &shape.items, &shape.properties}) {
    if (length->least > kMostCount) return no_text();
  }
  const unsigned kinds = shape.kinds();
  std::vector<TextExpression> result;
  const auto add = [&](Result<TextExpression> texts) -> Status {
    TANDEM_ASSIGN(TextExpression text, std::move(texts));
    result.push_back(std::move(text));
    return {};
  };
  if ((kinds & kObject) != 0) TANDEM_TRY(add(object(shape)));
  if ((kinds & kArray) != 0) TANDEM_TRY(add(array(shape)));
  if ((kinds & kString) != 0) TANDEM_TRY(add(string(shape)));
  if ((kinds & kNumber) != 0) TANDEM_TRY(add(number(shape, (kinds & kFraction) == 0)));
  if ((kinds & kBoolean) != 0) result.push_back(any_of({literal("true"), literal("false")}));
  if ((kinds & kNull) != 0) result.push_back(literal("null"));
  return any_of(std::move(result));
}

Result<TextExpression> SchemaGrammar::number(const SchemaShape& shape, bool integers) {
  auto result = numbers_in(shape.number, shape.steps, integers, rules_);
  if (result || !reader_.is_lenient()) return result;
  result = numbers_in(shape.number, {}, integers, rules_);
  return result ? result : numbers_in({}, {}, integers, rules_);
}

Result<TextExpression> SchemaGrammar::string(const SchemaShape& shape) {
  const Lengths length = counted(shape.length);
  std::vector<TextExpression> says;
  for (const std::string& pattern : shape.patterns) {
    auto texts = reader_.texts_of_pattern(pattern);
    if (texts) {
      says.push_back(std::move(*texts));
    } else if (!reader_.is_lenient()) {
      return texts;
    }
  }
  for (const std::string& format : shape.formats) says.push_back(texts_of_format(format));
  if (says.empty()) {
    if (length.least == 0 && length.most < 0) return json_.any_string();
    return in_sequence(
        {literal("\""), repeated(json_.any_character(), length.least, length.most), literal("\"")});
  }
  if (says.size() > 1) {
    TANDEM_TRY(reader_.refuse(
        "a string of more than one 'pattern' or 'format' is not supported: write one 'pattern'"));
  }
  const TextExpression& texts = says.front();
  if (lengths_of(texts).lie_within(length)) return json_.string_of(texts);
  const auto limited = with_lengths(texts, length);
  if (limited) return json_.string_of(*limited);
  TANDEM_TRY(reader_.refuse(
      "'minLength' and 'maxLength' are not supported beside this 'pattern' or 'format': write the "
      "lengths into a pattern, as in ^[a-z]{{1,8}}$"));
  return json_.string_of(texts);
}

Result<TextExpression> SchemaGrammar::array(const SchemaShape& shape) {
  Lengths length = counted(shape.items);
  std::size_t first = 0;
  bool tells_rest = false;
  for (const nlohmann::ordered_json* list : shape.lists) {
    const nlohmann::ordered_json* items = member_of(*list, "items");
    const bool old = items != nullptr && items->is_array();
    const nlohmann::ordered_json* prefix = old ? items : member_of(*list, "prefixItems");
    if (prefix != nullptr && prefix->is_array()) first = std::max(first, prefix->size());
    tells_rest = tells_rest || (old ? list->contains("additionalItems") : items != nullptr);
  }
  if (first > kMostFirstItems) return invalid("'prefixItems' has more than {}", kMostFirstItems);
  const auto count = static_cast<std::int64_t>(first);
  // As for objects, an array has no items beyond those described unless the schema allows them.
  const bool closed = first > 0 && !tells_rest && length.least <= count;
  if (closed) length.most = length.most < 0 ? count : std::min(length.most, count);
  if (length.most >= 0 && length.most < length.least) return no_text();

  const TextExpression space = json_.white_space();
  const TextExpression separator = in_sequence({literal(","), space});
  const auto item = [&](std::size_t place) -> Result<TextExpression> {
    const auto schemas = reader_.item(shape, place);
    if (!schemas) return no_text();
    TANDEM_ASSIGN(TextExpression text, value(*schemas));
    return in_sequence({std::move(text), space});
  };
  TextExpression rest;
  if (length.most < 0 || length.most > count) {
    TANDEM_ASSIGN(TextExpression more, item(first));
    const std::int64_t most = length.most < 0 ? -1 : length.most - count;
    const std::int64_t least = std::max<std::int64_t>(length.least - count, 0);
    const TextExpression next = in_sequence({separator, more});
    if (first > 0) {
      rest = repeated(next, least, most);
    } else {
      rest = in_sequence({std::move(more), repeated(next, std::max<std::int64_t>(least - 1, 0),
                                                    most < 0 ? -1 : most - 1)});
      if (least == 0) rest = maybe(std::move(rest));
    }
  }
  for (std::size_t i = first; i-- > 0;) {
    const auto place = static_cast<std::int64_t>(i);
    if (length.most >= 0 && place >= length.most) continue;
    TANDEM_ASSIGN(TextExpression here, item(i));
    rest = in_sequence({i > 0 ? separator : TextExpression(), std::move(here), std::move(rest)});
    if (place >= length.least) rest = maybe(std::move(rest));
  }
  return in_sequence({literal("["), space, std::move(rest), literal("]")});
}

Result<TextExpression> SchemaGrammar::property(TextExpression name, const Schemas& schemas) {
  TANDEM_ASSIGN(TextExpression text, value(schemas));
  const TextExpression space = json_.white_space();
  return in_sequence({std::move(name), space, literal(":"), space, std::move(text), space});
}

Result<TextExpression> SchemaGrammar::object(const SchemaShape& shape) {
  std::vector<ObjectMember> members;
  for (const std::string& name : SchemaReader::names_of(shape)) {
    const bool required = SchemaReader::is_required(shape, name);
    const auto schemas = reader_.property(shape, name);
    if (!schemas && required) return no_text();
    if (!schemas) continue;
    TANDEM_ASSIGN(TextExpression text, property(literal(JsonTexts::quoted(name)), *schemas));
    members.push_back({std::move(text), required});
  }
  TANDEM_ASSIGN(TextExpression others, other_properties(shape));
  const auto required = static_cast<std::int64_t>(shape.required.size());
  Lengths length = counted(shape.properties);
  // Other properties might repeat a name.
  if (others.kind != TextExpression::Kind::never && length.least > required + 1) {
    TANDEM_TRY(reader_.refuse(
        "'minProperties' of more than the required ones and one is not supported where others may "
        "be"));
    length.least = required;
  }
  const TextExpression space = json_.white_space();
  MemberRules rules(std::move(members), std::move(others), in_sequence({literal(","), space}),
                    length, rules_);
  return in_sequence({literal("{"), space, rules.write(), literal("}")});
}

void SchemaGrammar::add_schemas_of(const SchemaShape& shape, const std::vector<std::string>& names,
                                   Schemas& schemas) {
  static const nlohmann::ordered_json nothing = false;
  for (const std::string& name : names) {
    const auto more = reader_.property(shape, name);
    if (!more) {
      schemas.push_back(&nothing);
    } else {
      schemas.insert(schemas.end(), more->begin(), more->end());
    }
  }
}

Result<TextExpression> SchemaGrammar::other_name(const SchemaShape& shape,
                                                 std::vector<std::string>& named) {
  std::vector<std::string> names = SchemaReader::names_of(shape);
  if (shape.names.empty()) {
    named.clear();
    return json_.string_but(names);
  }
  std::erase_if(names, [&](const std::string& name) {
    return reader_.fit_any(name, shape.names) == Fit::no;
  });
  named = std::move(names);
  TANDEM_ASSIGN(const std::vector<SchemaShape> shapes, reader_.shapes_of(shape.names));
  std::vector<TextExpression> result;
  for (const SchemaShape& each : shapes) {
    SchemaShape text = each;
    text.types = kString;
    TANDEM_ASSIGN(TextExpression one, text_of(text));
    result.push_back(std::move(one));
  }
  return any_of(std::move(result));
}

Result<TextExpression> SchemaGrammar::other_properties(const SchemaShape& shape) {
  if (!SchemaReader::is_open(shape)) return no_text();
  std::map<std::string, Schemas> by_pattern;
  Schemas of_patterns, additional;
  bool closed = false, opened = true;
  for (const nlohmann::ordered_json* object : shape.objects) {
    const nlohmann::ordered_json* patterns = member_of(*object, "patternProperties");
    if (patterns != nullptr && patterns->is_object()) {
      for (const auto& [pattern, schema] : patterns->items()) {
        by_pattern[pattern].push_back(&schema);
        of_patterns.push_back(&schema);
      }
    }
    const nlohmann::ordered_json* more = member_of(*object, "additionalProperties");
    closed = closed || (more != nullptr && *more == false);
    if (more != nullptr && *more != false) additional.push_back(more);
  }
  for (const nlohmann::ordered_json* object : shape.objects) {
    const bool names_any = object->contains("properties") || object->contains("patternProperties");
    const nlohmann::ordered_json* rest = member_of(*object, "unevaluatedProperties");
    if (names_any && additional.empty() && (rest == nullptr || *rest != true)) opened = false;
  }
  std::vector<TextExpression> result;
  for (const auto& [pattern, schemas] : by_pattern) {
    auto texts = reader_.texts_of_pattern(pattern);
    if (!texts && !reader_.is_lenient()) return texts;
    // A schema forbids other properties and does not have this pattern.
    const bool all_know = schemas.size() == shape.objects.size();
    if (!texts || (closed && !all_know)) continue;
    if (!shape.names.empty()) {
      TANDEM_TRY(reader_.refuse("'propertyNames' beside 'patternProperties' is not supported"));
    }
    // A name that matches this pattern may match the other patterns too.
    Schemas all = of_patterns;
    if (!all_know) all.insert(all.end(), additional.begin(), additional.end());
    std::vector<std::string> names = SchemaReader::names_of(shape);
    std::erase_if(names, [&, &pattern = pattern](const std::string& name) {
      return reader_.is_found(pattern, name) == Fit::no;
    });
    add_schemas_of(shape, names, all);
    TANDEM_ASSIGN(TextExpression one, property(json_.string_of(*texts), all));
    result.push_back(std::move(one));
  }
  if (opened && !closed) {
    std::vector<std::string> named;
    TANDEM_ASSIGN(TextExpression name, other_name(shape, named));
    Schemas all = additional;
    all.insert(all.end(), of_patterns.begin(), of_patterns.end());
    add_schemas_of(shape, named, all);
    TANDEM_ASSIGN(TextExpression one, property(std::move(name), all));
    result.push_back(std::move(one));
  }
  return any_of(std::move(result));
}

}  // namespace tandem
