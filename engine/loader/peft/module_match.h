// Module names in PEFT's configuration. A path is "model.layers.3.self_attn.q_proj".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/loader/python_regex.h"

namespace tandem {

// target_modules or exclude_modules: a list of names, each a path or its last parts ("q_proj",
// "self_attn.q_proj"), or a regular expression for the whole path.
class ModuleSet {
 public:
  ModuleSet() = default;  // matches nothing
  static ModuleSet of_names(std::vector<std::string> names);
  static Result<ModuleSet> of_regex(std::string_view pattern);

  bool is_regex() const { return regex_.has_value(); }
  const std::vector<std::string>& names() const { return names_; }

  enum class Match {
    none,
    by_end,
    whole
  };  // whole: the name equals the path, or the regex
      // matches it
  Result<Match> match(std::string_view path) const;

  static Match match_name(std::string_view name, std::string_view path);

 private:
  std::vector<std::string> names_;
  std::optional<PythonRegex> regex_;
};

// rank_pattern or alpha_pattern. Each key is a regular expression for the path or its last parts;
// the first matching key decides.
class PatternMap {
 public:
  Status add(std::string_view key, double value);
  Result<std::optional<double>> find(std::string_view path) const;

 private:
  struct Entry {
    std::string plain;  // compared directly if the key has no regular expression syntax
    std::optional<PythonRegex> regex;  // used otherwise
    double value;
  };
  std::vector<Entry> entries_;
};

}  // namespace tandem
