// The "normalizer" of tokenizer.json, which changes a text before it is split.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/tokenizer/regex/regex.h"

namespace tandem {

// Supports NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, Lowercase, and Sequences of them.
// Immutable, thread-safe.
class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  static Result<Normalizer> parse(const nlohmann::json& spec);

  bool empty() const { return steps_.empty(); }
  // `text` must be valid UTF-8; so is the result.
  Result<std::string> apply(std::string_view text) const;

 private:
  enum class Kind { nfc, nfd, nfkc, nfkd, prepend, replace, strip, lowercase };
  struct Step {
    Kind kind;
    std::string text;            // the text to prepend, or to replace matches by
    std::vector<Regex> pattern;  // set for replace only, then one
    bool left = false, right = false;
  };
  static Status parse_into(const nlohmann::json& spec, const std::string& path, int depth,
                           std::vector<Step>& steps);
  static Status apply_step(const Step& step, std::string& text);

  std::vector<Step> steps_;
};

// Parses a "pattern" of tokenizer.json: {"String": "..."} or {"Regex": "..."}.
Result<Regex> parse_pattern(const nlohmann::json& spec, const std::string& path);

// Replaces every match of `pattern` in `text` by `with`.
Result<std::string> replace_all(const Regex& pattern, std::string_view with, std::string_view text);

// The limit on the nesting of Sequences.
inline constexpr int kMaxSequenceDepth = 8;

}  // namespace tandem
