// How PEFT's configuration names modules. A path is "model.layers.3.self_attn.q_proj".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/loader/peft/python_regex.h"

namespace tandem {

// target_modules or exclude_modules: a list of names, each a path or its last parts ("q_proj",
// "self_attn.q_proj"), or a regular expression of the whole path.
class ModuleSet {
 public:
  ModuleSet() = default;  // matches nothing
  static ModuleSet of_names(std::vector<std::string> names);
  static Result<ModuleSet> of_regex(std::string_view pattern);

  bool is_regex() const { return regex_.has_value(); }
  const std::vector<std::string>& names() const { return names_; }

  enum class Match { none, by_end, whole };  // whole: a name that is the path itself, or the regex
  Result<Match> match(std::string_view path) const;

  static Match match_name(std::string_view name, std::string_view path);

 private:
  std::vector<std::string> names_;
  std::optional<PythonRegex> regex_;
};

// rank_pattern or alpha_pattern: each key is a regular expression of the path or of its last parts;
// the first key that matches decides.
class PatternMap {
 public:
  Status add(std::string_view key, double value);
  Result<std::optional<double>> find(std::string_view path) const;

 private:
  struct Entry {
    std::string plain;  // compared directly when it has no regular expression's signs
    std::optional<PythonRegex> regex;  // else this
    double value;
  };
  std::vector<Entry> entries_;
};

}  // namespace tandem
