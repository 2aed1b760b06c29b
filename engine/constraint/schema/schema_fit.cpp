// Part of SchemaReader: which values are valid, and which alternatives exclude each other.
#include <algorithm>
#include <utility>

#include "engine/constraint/schema/schema_shape.h"
#include "engine/constraint/schema/string_formats.h"

namespace tandem {
namespace {

using Fit = SchemaReader::Fit;

constexpr int kMostDepth = 8;
constexpr std::size_t kMostCharacters = 2000;  // limit on texts in which a pattern is searched
constexpr std::size_t kMostCompared = 50'000;

Fit less_sure(Fit a, Fit b) {
  return std::min(a, b);
}

Fit fit_of(bool fits) {
  return fits ? Fit::yes : Fit::no;
}

Fit within(std::size_t length, const Lengths& lengths) {
  const auto count = static_cast<std::int64_t>(length);
  return fit_of(count >= lengths.least && (lengths.most < 0 || count <= lengths.most));
}

bool apart(const Lengths& a, const Lengths& b) {
  return (a.most >= 0 && a.most < b.least) || (b.most >= 0 && b.most < a.least);
}

}  // namespace

Result<TextExpression> SchemaReader::texts_of_pattern(const std::string& pattern) {
  const auto at = patterns_.find(pattern);
  if (at != patterns_.end()) return at->second;
  const auto read = [&]() -> Result<TextExpression> {
    TANDEM_ASSIGN(const TextExpression parsed, parse_pattern("'pattern'", pattern));
    return texts_searched("'pattern'", parsed);
  };
  return patterns_.emplace(pattern, read()).first->second;
}

Fit SchemaReader::is_found(const std::string& pattern, const std::string& text) {
  if (text.size() > kMostCharacters) return Fit::unsure;
  const auto texts = texts_of_pattern(pattern);
  return texts ? fit_of(is_text_of(*texts, code_points(text))) : Fit::unsure;
}

Fit SchemaReader::fit_string(const std::string& value, const SchemaShape& shape) {
  Fit result = within(code_points(value).size(), shape.length);
  for (const std::string& pattern : shape.patterns) {
    result = less_sure(result, is_found(pattern, value));
  }
  for (const std::string& format : shape.formats) {
    // The generated texts of a format are a subset of those that are valid, so other texts are
    // uncertain.
    const bool known =
        value.size() <= kMostCharacters && is_text_of(texts_of_format(format), code_points(value));
    result = less_sure(result, known ? Fit::yes : Fit::unsure);
  }
  return result;
}

Fit SchemaReader::fit_list(const SchemaJson& value, const SchemaShape& shape, int depth) {
  Fit result = within(value.size(), shape.items);
  for (std::size_t i = 0; i < value.size() && result != Fit::no; ++i) {
    const auto schemas = item(shape, i);
    if (!schemas) return Fit::no;
    result = less_sure(result, fit_any(value[i], *schemas, depth + 1));
  }
  return result;
}

Fit SchemaReader::fit_object(const SchemaJson& value, const SchemaShape& shape, int depth) {
  Fit result = within(value.size(), shape.properties);
  for (const std::string& name : shape.required) {
    if (!value.contains(name)) return Fit::no;
  }
  for (const auto& [name, each] : value.items()) {
    if (result == Fit::no) break;
    const auto schemas = property(shape, name);
    if (!schemas) return Fit::no;
    result = less_sure(result, fit_any(each, *schemas, depth + 1));
  }
  return result;
}

Fit SchemaReader::fit_any(const SchemaJson& value, const Schemas& schemas, int depth) {
  if (depth > kMostDepth) return Fit::unsure;
  const auto shapes = shapes_of(schemas);
  if (!shapes) return Fit::unsure;
  Fit result = Fit::no;
  for (const SchemaShape& shape : *shapes) result = std::max(result, fit(value, shape, depth));
  return result;
}

Fit SchemaReader::fit(const SchemaJson& value, const SchemaShape& shape, int depth) {
  const unsigned kind = kinds_of_value(value);
  if (shape.types && (*shape.types & kind) == 0) return Fit::no;
  if (shape.literals && std::ranges::none_of(*shape.literals, [&](const SchemaJson* literal) {
        return *literal == value;
      })) {
    return Fit::no;
  }
  switch (kind) {
    case kInteger:
    case kFraction: {
      const auto number = Decimal::of(value);
      if (!number)
        return shape.number.least || shape.number.most || !shape.steps.empty() ? Fit::unsure
                                                                               : Fit::yes;
      const bool fits = shape.number.contains(*number) &&
                        std::ranges::all_of(shape.steps, [&](const Decimal& step) {
                          return is_multiple(*number, step);
                        });
      return fit_of(fits);
    }
    case kString:
      return fit_string(value.get_ref<const std::string&>(), shape);
    case kArray:
      return fit_list(value, shape, depth);
    case kObject:
      return fit_object(value, shape, depth);
    default:
      return Fit::yes;
  }
}

bool SchemaReader::exclude_each_other(const SchemaShape& a, const SchemaShape& b, int depth) {
  if (depth > kMostDepth || ++compared_ > kMostCompared) return false;
  if (const auto& literals = a.literals ? a.literals : b.literals) {
    return std::ranges::all_of(*literals, [&](const SchemaJson* value) {
      return fit(*value, a) == Fit::no || fit(*value, b) == Fit::no;
    });
  }
  // A schema without "type" generates fewer kinds than are valid for it.
  const unsigned common =
      (a.kinds() & b.types.value_or(kAnyKind)) | (b.kinds() & a.types.value_or(kAnyKind));
  if ((common & (kNull | kBoolean)) != 0) return false;
  if ((common & kNumber) != 0 && !a.number.is_apart_from(b.number)) return false;
  if ((common & kString) != 0 && !apart(a.length, b.length)) return false;
  if ((common & kArray) != 0 && !apart(a.items, b.items)) return false;
  if ((common & kObject) == 0) return true;
  return apart(a.properties, b.properties) ||
         (excludes_object(a, b, depth) && excludes_object(b, a, depth));
}

// Whether no object that `made` generates is valid for `other`.
bool SchemaReader::excludes_object(const SchemaShape& made, const SchemaShape& other, int depth) {
  const std::vector<std::string> names = names_of(made);
  for (const std::string& name : other.required) {
    const bool is_named = std::ranges::find(names, name) != names.end();
    if ((!is_named && !is_open(made)) || !property(made, name)) return true;
  }
  for (const std::string& name : made.required) {
    if (are_apart(property(made, name), property(other, name), depth + 1)) return true;
  }
  return false;
}

bool SchemaReader::are_apart(const std::optional<Schemas>& a, const std::optional<Schemas>& b,
                             int depth) {
  if (!a || !b) return true;
  const auto left = shapes_of(*a), right = shapes_of(*b);
  if (!left || !right) return false;
  for (const SchemaShape& one : *left) {
    for (const SchemaShape& other : *right) {
      if (!exclude_each_other(one, other, depth)) return false;
    }
  }
  return true;
}

bool SchemaReader::exclude_each_other(const std::vector<Shapes>& branches) {
  for (std::size_t i = 0; i < branches.size(); ++i) {
    for (std::size_t k = i + 1; k < branches.size(); ++k) {
      for (const SchemaShape& a : branches[i]) {
        for (const SchemaShape& b : branches[k]) {
          if (!exclude_each_other(a, b)) return false;
        }
      }
    }
  }
  return true;
}

// A property that is in all alternatives and distinguishes them is made required. That is the
// meaning of "discriminator"; pydantic leaves such a property out of "required" if it has a
// default.
void SchemaReader::require_what_tells(std::vector<Shapes>& branches, const SchemaJson& schema) {
  std::vector<SchemaShape*> shapes;
  std::vector<std::size_t> branch_of;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    for (SchemaShape& shape : branches[i]) {
      if ((shape.kinds() & kObject) == 0) continue;
      shapes.push_back(&shape);
      branch_of.push_back(i);
    }
  }
  if (shapes.empty()) return;
  std::vector<std::string> candidates = names_of(*shapes.front());
  if (const auto at = schema.find("discriminator"); at != schema.end() && at->is_object()) {
    if (const auto name = at->find("propertyName"); name != at->end() && name->is_string()) {
      candidates.insert(candidates.begin(), name->get<std::string>());
    }
  }
  for (const std::string& name : candidates) {
    const auto tells = [&](std::size_t i, std::size_t k) {
      return branch_of[i] == branch_of[k] ||
             are_apart(property(*shapes[i], name), property(*shapes[k], name), 1);
    };
    bool all = true;
    for (std::size_t i = 0; i < shapes.size() && all; ++i) {
      for (std::size_t k = i + 1; k < shapes.size() && all; ++k) all = tells(i, k);
    }
    if (!all) continue;
    for (SchemaShape* shape : shapes) {
      if (!is_required(*shape, name)) shape->required.push_back(name);
    }
    return;
  }
}

}  // namespace tandem
