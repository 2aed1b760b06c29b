#include "engine/constraint/schema/schema_shape.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>
#include <set>
#include <utility>

#include "engine/constraint/schema/string_formats.h"

namespace tandem {
namespace {

constexpr std::size_t kMostShapes = 5000;
constexpr std::size_t kMostUnderWay = 100;

const SchemaJson* find(const SchemaJson& schema, const char* name) {
  if (!schema.is_object()) return nullptr;
  const auto at = schema.find(name);
  return at == schema.end() ? nullptr : &*at;
}

// Returns a keyword's value if it has the right form. An ill-formed value, possible if the schema
// was not checked before, counts as absent.
const SchemaJson* sound(const SchemaJson& schema, const char* name) {
  const SchemaJson* value = find(schema, name);
  return value != nullptr && has_form(*find_schema_keyword(name), *value) ? value : nullptr;
}

bool asserts(const std::string& name) {
  const SchemaKeyword* keyword = find_schema_keyword(name);
  return keyword != nullptr && keyword->does == SchemaKeyword::Does::enforced && name != "$defs" &&
         name != "definitions";
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  for (const T& each : from) {
    if (std::ranges::find(to, each) == to.end()) to.push_back(each);
  }
}

void narrow(Lengths& lengths, const Lengths& other) {
  lengths.least = std::max(lengths.least, other.least);
  if (other.most >= 0) {
    lengths.most = lengths.most < 0 ? other.most : std::min(lengths.most, other.most);
  }
}

void narrow(NumberRange& range, const NumberRange& other) {
  if (other.least) range.raise_least(*other.least, other.above_least);
  if (other.most) range.lower_most(*other.most, other.below_most);
}

bool is_possible(const SchemaShape& shape) {
  return !(shape.types && *shape.types == 0) && !(shape.literals && shape.literals->empty());
}

SchemaShape both_of(const SchemaShape& a, const SchemaShape& b) {
  SchemaShape result = a;
  if (b.types) result.types = a.types ? *a.types & *b.types : *b.types;
  result.about |= b.about;
  if (b.literals && !a.literals) {
    result.literals = b.literals;
  } else if (b.literals) {
    std::erase_if(*result.literals, [&](const SchemaJson* value) {
      return std::ranges::none_of(*b.literals,
                                  [&](const SchemaJson* other) { return *other == *value; });
    });
  }
  narrow(result.number, b.number);
  for (const Decimal& step : b.steps) result.steps.push_back(step);
  narrow(result.length, b.length);
  append(result.patterns, b.patterns);
  append(result.formats, b.formats);
  narrow(result.items, b.items);
  append(result.lists, b.lists);
  narrow(result.properties, b.properties);
  append(result.objects, b.objects);
  append(result.required, b.required);
  append(result.names, b.names);
  if (b.only && result.only) {
    std::erase_if(*result.only, [&](const std::string& name) {
      return std::ranges::find(*b.only, name) == b.only->end();
    });
  } else if (b.only) {
    result.only = b.only;
  }
  return result;
}

bool opens(const SchemaJson& object) {
  const SchemaJson* additional = sound(object, "additionalProperties");
  if (additional != nullptr) return *additional != false;
  const SchemaJson* rest = sound(object, "unevaluatedProperties");
  return rest != nullptr && *rest == true;
}

}  // namespace

Status SchemaReader::spend(std::size_t shapes) {
  spent_ += shapes;
  if (spent_ <= kMostShapes) return {};
  return invalid("it has more than {} alternatives, counted together", kMostShapes);
}

Result<const SchemaJson*> SchemaReader::target(const std::string& reference) const {
  const SchemaJson* at = document_;
  std::size_t begin = 1;
  const auto lost = [&] { return invalid("'$ref': \"{}\" leads to nothing", reference); };
  if (reference.size() > 1 && reference[1] != '/') return lost();
  while (begin < reference.size()) {
    const std::size_t end = std::min(reference.find('/', begin + 1), reference.size());
    std::string name;
    for (std::size_t i = begin + 1; i < end; ++i) {
      const std::string_view rest = std::string_view(reference).substr(i, end - i);
      if (rest.starts_with("~0") || rest.starts_with("~1")) {
        name += rest[1] == '0' ? '~' : '/';
        ++i;
      } else if (unsigned byte = 0; rest[0] == '%' && rest.size() > 2 &&
                                    std::sscanf(reference.c_str() + i + 1, "%2x", &byte) == 1) {
        name += static_cast<char>(byte);
        i += 2;
      } else {
        name += rest[0];
      }
    }
    if (at->is_object()) {
      const auto found = at->find(name);
      if (found == at->end()) return lost();
      at = &*found;
    } else if (at->is_array() && !name.empty() && name.size() < 6 &&
               name.find_first_not_of("0123456789") == std::string::npos &&
               std::stoul(name) < at->size()) {
      at = &(*at)[std::stoul(name)];
    } else {
      return lost();
    }
    begin = end;
  }
  if (!at->is_object() && !at->is_boolean()) return lost();
  return at;
}

Result<Schemas> SchemaReader::canonical(const Schemas& schemas) const {
  Schemas result;
  for (const SchemaJson* schema : schemas) {
    for (std::size_t i = 0;; ++i) {
      if (i > kMostUnderWay) return invalid("'$ref' leads on and on: it allows no text at all");
      std::size_t assertions = 0;
      if (schema->is_object()) {
        for (const auto& [name, value] : schema->items()) assertions += asserts(name) ? 1 : 0;
      }
      const SchemaJson* reference = sound(*schema, "$ref");
      if (reference == nullptr || assertions > 1) {
        const bool says_nothing = schema->is_object() ? assertions == 0 : *schema == true;
        if (!says_nothing) result.push_back(schema);
        break;
      }
      auto next = target(reference->get_ref<const std::string&>());
      if (!next && !lenient_) return next.status();
      if (!next) break;
      schema = *next;
    }
  }
  std::sort(result.begin(), result.end(), std::less<>());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

SchemaShape SchemaReader::own_shape(const SchemaJson& schema) const {
  SchemaShape shape;
  bool is_list = false, is_object = false;
  for (const auto& [name, value] : schema.items()) {
    const SchemaKeyword* keyword = find_schema_keyword(name);
    if (keyword == nullptr || keyword->does != SchemaKeyword::Does::enforced ||
        !has_form(*keyword, value)) {
      continue;
    }
    shape.about |= keyword->kinds;
    const auto count = [&value = value] {
      return static_cast<std::int64_t>(std::min(value.get<double>(), 1e15));
    };
    std::optional<Decimal> number;
    if (value.is_number()) number = Decimal::of(value);
    if (name == "type") {
      shape.types = 0;
      for (const SchemaJson& type : value.is_array() ? value : SchemaJson::array({value})) {
        *shape.types |= kinds_of_type(type.get_ref<const std::string&>());
      }
    } else if (name == "enum" || name == "const") {
      std::vector<const SchemaJson*> literals;
      if (name == "const") {
        literals.push_back(&value);
      } else {
        for (const SchemaJson& each : value) literals.push_back(&each);
      }
      SchemaShape of_literals;
      of_literals.literals = std::move(literals);
      shape = both_of(shape, of_literals);
    } else if (name == "minLength") {
      narrow(shape.length, {count(), -1});
    } else if (name == "maxLength") {
      narrow(shape.length, {0, count()});
    } else if (name == "pattern") {
      shape.patterns.push_back(value.get<std::string>());
    } else if (name == "format") {
      if (is_known_format(value.get_ref<const std::string&>())) {
        shape.formats.push_back(value.get<std::string>());
      }
    } else if (name == "minimum" || name == "exclusiveMinimum") {
      if (number) shape.number.raise_least(*number, name != "minimum");
    } else if (name == "maximum" || name == "exclusiveMaximum") {
      if (number) shape.number.lower_most(*number, name != "maximum");
    } else if (name == "multipleOf") {
      if (number) shape.steps.push_back(*number);
    } else if (name == "minItems") {
      narrow(shape.items, {count(), -1});
    } else if (name == "maxItems") {
      narrow(shape.items, {0, count()});
    } else if (name == "minProperties") {
      narrow(shape.properties, {count(), -1});
    } else if (name == "maxProperties") {
      narrow(shape.properties, {0, count()});
    } else if (name == "items" || name == "prefixItems") {
      is_list = true;
    } else if (name == "properties" || name == "patternProperties" ||
               name == "additionalProperties" || name == "unevaluatedProperties") {
      is_object = true;
    } else if (name == "required") {
      for (const SchemaJson& each : value) add_once(shape.required, each.get<std::string>());
    } else if (name == "propertyNames") {
      shape.names.push_back(&value);
    }
  }
  if (is_list) shape.lists.push_back(&schema);
  if (is_object) shape.objects.push_back(&schema);
  return shape;
}

Result<std::vector<SchemaShape>> SchemaReader::both(const Shapes& a, const Shapes& b) {
  Shapes result;
  TANDEM_TRY(spend(a.size() * b.size()));
  for (const SchemaShape& left : a) {
    for (const SchemaShape& right : b) {
      SchemaShape shape = both_of(left, right);
      if (is_possible(shape)) result.push_back(std::move(shape));
    }
  }
  return result;
}

Result<std::vector<SchemaShape>> SchemaReader::shapes_of(const Schemas& schemas) {
  Shapes result(1);
  for (const SchemaJson* schema : schemas) {
    TANDEM_ASSIGN(const Shapes shapes, shapes_of_one(*schema));
    TANDEM_ASSIGN(result, both(result, shapes));
  }
  return result;
}

Result<std::vector<SchemaShape>> SchemaReader::shapes_of_one(const SchemaJson& schema) {
  if (schema.is_boolean()) return Shapes(schema == true ? 1 : 0);
  if (std::ranges::find(under_way_, &schema) != under_way_.end() ||
      under_way_.size() >= kMostUnderWay) {
    TANDEM_TRY(refuse("a schema leads to itself by '$ref': it allows no text at all"));
    return Shapes(1);
  }
  under_way_.push_back(&schema);
  Result<Shapes> result = shapes_by_keywords(schema);
  under_way_.pop_back();
  return result;
}

Result<std::vector<SchemaShape>> SchemaReader::any_shape_of(const SchemaJson& schemas) {
  Shapes result;
  for (const SchemaJson& each : schemas) {
    TANDEM_ASSIGN(Shapes shapes, shapes_of_one(each));
    std::move(shapes.begin(), shapes.end(), std::back_inserter(result));
  }
  return result;
}

Result<std::vector<SchemaShape>> SchemaReader::shapes_by_keywords(const SchemaJson& schema) {
  Shapes result{own_shape(schema)};
  TANDEM_TRY(spend(1));
  if (const SchemaJson* reference = sound(schema, "$ref")) {
    const auto next = target(reference->get_ref<const std::string&>());
    if (!next && !lenient_) return next.status();
    if (next) {
      TANDEM_ASSIGN(const Shapes shapes, shapes_of_one(**next));
      TANDEM_ASSIGN(result, both(result, shapes));
    }
  }
  if (const SchemaJson* all = sound(schema, "allOf")) {
    for (const SchemaJson& each : *all) {
      TANDEM_ASSIGN(const Shapes shapes, shapes_of_one(each));
      TANDEM_ASSIGN(result, both(result, shapes));
    }
  }
  if (const SchemaJson* any = sound(schema, "anyOf")) {
    TANDEM_ASSIGN(const Shapes shapes, any_shape_of(*any));
    TANDEM_ASSIGN(result, both(result, shapes));
  }
  if (sound(schema, "oneOf") != nullptr) {
    TANDEM_ASSIGN(result, one_shape_of(schema, result));
  }
  const SchemaJson* rest = sound(schema, "unevaluatedProperties");
  if (rest == nullptr || *rest != false) return result;
  for (SchemaShape& shape : result) {
    if (std::ranges::any_of(shape.objects, [](const SchemaJson* each) { return opens(*each); })) {
      continue;
    }
    std::vector<std::string> named;
    for (const SchemaJson* object : shape.objects) {
      if (sound(*object, "patternProperties") != nullptr) {
        TANDEM_TRY(refuse("'unevaluatedProperties' beside 'patternProperties' is not supported"));
      }
      const SchemaJson* properties = sound(*object, "properties");
      if (properties == nullptr) continue;
      for (const auto& [name, value] : properties->items()) add_once(named, name);
    }
    SchemaShape closed;
    closed.only = std::move(named);
    shape = both_of(shape, closed);
  }
  return result;
}

Result<std::vector<SchemaShape>> SchemaReader::one_shape_of(const SchemaJson& schema,
                                                            const Shapes& beside) {
  std::vector<Shapes> branches;
  for (const SchemaJson& each : schema["oneOf"]) {
    TANDEM_ASSIGN(const Shapes shapes, shapes_of_one(each));
    TANDEM_ASSIGN(Shapes branch, both(beside, shapes));
    branches.push_back(std::move(branch));
  }
  if (!exclude_each_other(branches)) {
    require_what_tells(branches, schema);
    if (!exclude_each_other(branches)) {
      TANDEM_TRY(
          refuse("'oneOf' has alternatives that may be valid together: write 'anyOf', or give them "
                 "a required property whose 'const' tells them apart"));
    }
  }
  Shapes result;
  for (Shapes& branch : branches) {
    std::move(branch.begin(), branch.end(), std::back_inserter(result));
  }
  return result;
}

std::optional<Schemas> SchemaReader::item(const SchemaShape& shape, std::size_t place) const {
  Schemas result;
  for (const SchemaJson* list : shape.lists) {
    const SchemaJson* items = sound(*list, "items");
    const bool old = items != nullptr && items->is_array();
    const SchemaJson* first = old ? items : sound(*list, "prefixItems");
    const SchemaJson* rest = old ? sound(*list, "additionalItems") : items;
    if (first != nullptr && place < first->size()) {
      result.push_back(&(*first)[place]);
    } else if (rest != nullptr) {
      if (*rest == false) return std::nullopt;
      result.push_back(rest);
    }
  }
  return result;
}

std::optional<Schemas> SchemaReader::property(const SchemaShape& shape, const std::string& name) {
  if (shape.only && std::ranges::find(*shape.only, name) == shape.only->end()) return std::nullopt;
  Schemas result;
  for (const SchemaJson* object : shape.objects) {
    bool found = false;
    if (const SchemaJson* properties = sound(*object, "properties")) {
      if (const auto at = properties->find(name); at != properties->end()) {
        result.push_back(&*at);
        found = true;
      }
    }
    if (const SchemaJson* patterns = sound(*object, "patternProperties")) {
      for (const auto& [pattern, schema] : patterns->items()) {
        const Fit fit = is_found(pattern, name);
        if (fit == Fit::no) continue;
        result.push_back(&schema);
        found = true;
      }
    }
    const SchemaJson* additional = sound(*object, "additionalProperties");
    if (found || additional == nullptr) continue;
    if (*additional == false) return std::nullopt;
    result.push_back(additional);
  }
  if (!shape.names.empty() && fit_any(name, shape.names) != Fit::yes) return std::nullopt;
  return result;
}

std::vector<std::string> SchemaReader::names_of(const SchemaShape& shape) {
  std::vector<std::string> result;
  std::set<std::string> seen;
  const auto add = [&](const std::string& name) {
    if (seen.insert(name).second) result.push_back(name);
  };
  for (const SchemaJson* object : shape.objects) {
    const SchemaJson* properties = sound(*object, "properties");
    if (properties == nullptr) continue;
    for (const auto& [name, schema] : properties->items()) add(name);
  }
  for (const std::string& name : shape.required) add(name);
  return result;
}

bool SchemaReader::is_required(const SchemaShape& shape, const std::string& name) {
  return std::ranges::find(shape.required, name) != shape.required.end();
}

bool SchemaReader::is_open(const SchemaShape& shape) {
  if (shape.only) return false;
  bool names_any = false, opened = false;
  for (const SchemaJson* object : shape.objects) {
    names_any = names_any || sound(*object, "properties") != nullptr;
    opened = opened || opens(*object) || sound(*object, "patternProperties") != nullptr;
  }
  return opened || !names_any;
}

}  // namespace tandem
