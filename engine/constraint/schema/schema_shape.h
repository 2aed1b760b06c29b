// The combined requirements of schemas that must all hold, for one of the alternatives that result
// from anyOf, oneOf and lists of types.
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
// Schemas of one document that must all hold, as addresses in it: ascending, without duplicates.
// Empty: any value is valid.
using Schemas = std::vector<const SchemaJson*>;

struct SchemaShape {
  std::optional<unsigned> types;  // types named by "type"
  unsigned about = 0;             // kinds that the keywords apply to
  std::optional<std::vector<const SchemaJson*>> literals;
  NumberRange number;
  std::vector<Decimal> steps;
  Lengths length;
  std::vector<std::string> patterns;
  std::vector<std::string> formats;
  Lengths items;                         // bounds on their number
  std::vector<const SchemaJson*> lists;  // schemas with array keywords
  Lengths properties;
  std::vector<const SchemaJson*> objects;  // schemas with object keywords
  std::vector<std::string> required;
  std::optional<std::vector<std::string>> only;  // other properties are forbidden
  std::vector<const SchemaJson*> names;          // schemas for the names of properties

  // Without "type", the kinds that the keywords apply to.
  unsigned kinds() const { return types ? *types : literals || about == 0 ? kAnyKind : about; }
};

// Reads the schemas of one document, which must outlive it.
class SchemaReader {
 public:
  // `lenient`: constraints that cannot be enforced are left out; otherwise they are an error.
  SchemaReader(const SchemaJson& document, bool lenient)
      : document_(&document), lenient_(lenient) {}

  // Removes schemas without effect and resolves references.
  Result<Schemas> canonical(const Schemas& schemas) const;

  // An empty result means that no value is valid. invalid_argument: references without a target or
  // to themselves; alternatives of oneOf that may not exclude each other; too many alternatives.
  Result<std::vector<SchemaShape>> shapes_of(const Schemas& schemas);

  // Returns the schemas for an item, by its index, and for a property, by its name. Nothing: it is
  // forbidden.
  std::optional<Schemas> item(const SchemaShape& shape, std::size_t place) const;
  std::optional<Schemas> property(const SchemaShape& shape, const std::string& name);
  // Returns the names in "properties", in order, then the other required ones.
  static std::vector<std::string> names_of(const SchemaShape& shape);
  static bool is_required(const SchemaShape& shape, const std::string& name);
  // Whether unnamed properties are allowed: no schema forbids them, and either one allows them
  // explicitly or none names any property.
  static bool is_open(const SchemaShape& shape);

  // Whether a value is valid. The result is that of the least certain part.
  enum class Fit { no, unsure, yes };
  Fit fit(const SchemaJson& value, const SchemaShape& shape, int depth = 0);
  Fit fit_any(const SchemaJson& value, const Schemas& schemas, int depth = 0);

  // Returns an error, or success if lenient; the caller then leaves the constraint out.
  template <typename... Args>
  Status refuse(fmt::format_string<Args...> text, Args&&... args) const {
    return lenient_ ? Status() : invalid(text, std::forward<Args>(args)...);
  }
  bool is_lenient() const { return lenient_; }

  // Returns the texts that contain a match of the pattern; each pattern is parsed once.
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

  // True if it is certain that no value generated for one is valid for the other.
  bool exclude_each_other(const SchemaShape& a, const SchemaShape& b, int depth = 0);
  bool excludes_object(const SchemaShape& made, const SchemaShape& other, int depth);
  bool are_apart(const std::optional<Schemas>& a, const std::optional<Schemas>& b, int depth);
  bool exclude_each_other(const std::vector<Shapes>& branches);
  void require_what_tells(std::vector<Shapes>& branches, const SchemaJson& schema);

  const SchemaJson* document_;
  bool lenient_;
  std::vector<const SchemaJson*> under_way_;  // schemas whose shapes are being read
  std::size_t spent_ = 0;
  std::size_t compared_ = 0;
  std::map<std::string, Result<TextExpression>> patterns_;
};

}  // namespace tandem
