// What a value must be, read from the schemas that it must all be valid against: one alternative of
// those that anyOf, oneOf and lists of types leave.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/constraint/schema/number_texts.h"
#include "engine/constraint/schema/pattern.h"
#include "engine/constraint/schema/schema_keywords.h"

namespace tandem {

using SchemaJson = nlohmann::ordered_json;
// Schemas of one document that all hold, by their places in it: ascending, each once. None: any
// value is valid.
using Schemas = std::vector<const SchemaJson*>;

struct SchemaShape {
  std::optional<unsigned> types;  // that are named
  unsigned about = 0;             // kinds that keywords are about
  std::optional<std::vector<const SchemaJson*>> literals;
  NumberRange number;
  std::vector<Decimal> steps;
  Lengths length;
  std::vector<std::string> patterns;
  std::vector<std::string> formats;
  Lengths items;                         // how many
  std::vector<const SchemaJson*> lists;  // schemas with keywords of arrays
  Lengths properties;
  std::vector<const SchemaJson*> objects;  // likewise, of objects
  std::vector<std::string> required;
  std::optional<std::vector<std::string>> only;  // other properties may not be
  std::vector<const SchemaJson*> names;          // what a property's name must be valid against

  // Without "type", those that the keywords are about.
  unsigned kinds() const { return types ? *types : literals || about == 0 ? kAnyKind : about; }
};

// Of one document, which outlives it.
class SchemaReader {
 public:
  // `lenient`: what cannot be enforced is left out; else it is an error.
  SchemaReader(const SchemaJson& document, bool lenient)
      : document_(&document), lenient_(lenient) {}

  // Without those that say nothing, and references in the place of what they lead to.
  Result<Schemas> canonical(const Schemas& schemas) const;

  // None: no value is valid. Errors, as invalid_argument: references that lead nowhere or to
  // themselves; alternatives of oneOf that may not exclude each other; too many alternatives.
  Result<std::vector<SchemaShape>> shapes_of(const Schemas& schemas);

  // What an item, by its place, and a property, by its name, must be valid against. Nothing: it may
  // not be.
  std::optional<Schemas> item(const SchemaShape& shape, std::size_t place) const;
  std::optional<Schemas> property(const SchemaShape& shape, const std::string& name);
  // Of "properties", in their order, then those that are required besides.
  static std::vector<std::string> names_of(const SchemaShape& shape);
  static bool is_required(const SchemaShape& shape, const std::string& name);
  // Whether it may have properties that are not named in it: no schema of it closes them, and one
  // opens them, or none names any.
  static bool is_open(const SchemaShape& shape);

  // Whether a value is valid, as far as can be told: the least sure of its parts tells.
  enum class Fit { no, unsure, yes };
  Fit fit(const SchemaJson& value, const SchemaShape& shape, int depth = 0);
  Fit fit_any(const SchemaJson& value, const Schemas& schemas, int depth = 0);

  // An error, or where it is lenient nothing: what is at hand is left out.
  template <typename... Args>
  Status refuse(fmt::format_string<Args...> text, Args&&... args) const {
    return lenient_ ? Status() : invalid(text, std::forward<Args>(args)...);
  }
  bool is_lenient() const { return lenient_; }

  // Those that it is found in; read once.
  Result<TextExpression> texts_of_pattern(const std::string& pattern);
  Fit is_found(const std::string& pattern, const std::string& text);

 private:
  using Shapes = std::vector<SchemaShape>;

  Result<const SchemaJson*> target(const std::string& reference) const;
  Result<Shapes> shapes_of_one(const SchemaJson& schema);
  Result<Shapes> shapes_by_keywords(const SchemaJson& schema);
  Result<Shapes> any_shape_of(const SchemaJson& schemas);
  Fit fit_string(const std::string& value, const SchemaShape& shape);
  Fit fit_list(const SchemaJson& value, const SchemaShape& shape, int depth);
  Fit fit_object(const SchemaJson& value, const SchemaShape& shape, int depth);
  Result<Shapes> one_shape_of(const SchemaJson& schema, const Shapes& beside);
  SchemaShape own_shape(const SchemaJson& schema) const;
  Result<Shapes> both(const Shapes& a, const Shapes& b);
  Status spend(std::size_t shapes);

  // Whether no value that is made by one is valid against the other, for sure.
  bool exclude_each_other(const SchemaShape& a, const SchemaShape& b, int depth = 0);
  bool excludes_object(const SchemaShape& made, const SchemaShape& other, int depth);
  bool are_apart(const std::optional<Schemas>& a, const std::optional<Schemas>& b, int depth);
  bool exclude_each_other(const std::vector<Shapes>& branches);
  void require_what_tells(std::vector<Shapes>& branches, const SchemaJson& schema);

  const SchemaJson* document_;
  bool lenient_;
  std::vector<const SchemaJson*> under_way_;  // whose shapes are being read
  std::size_t spent_ = 0;
  std::size_t compared_ = 0;
  std::map<std::string, Result<TextExpression>> patterns_;
};

}  // namespace tandem
