// The "pre_tokenizer" of tokenizer.json, which splits a text into the words for byte-pair encoding.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/tokenizer/regex/regex.h"

namespace tandem {

// Supports Split, Digits, Metaspace, ByteLevel and Sequences of them. ByteLevel must be last: its
// words are passed on as raw bytes, and its alphabet is applied to the vocabulary instead.
// Immutable, thread-safe.
class PreTokenizer {
 public:
  // Receives each word; the view is valid during the call only.
  using Sink = std::function<void(std::string_view word)>;

  PreTokenizer() = default;  // the whole text is one word
  static Result<PreTokenizer> parse(const nlohmann::json& spec);

  bool byte_level() const { return byte_level_; }
  // `at_text_start`: `text` is the beginning of the user's text.
  Status run(std::string_view text, bool at_text_start, const Sink& sink) const {
    return run_from(0, text, at_text_start, sink);
  }

 private:
  enum class Kind { split, digits, metaspace, byte_level };
  enum class Behavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };
  enum class Prepend { always, first, never };
  struct Step {
    Kind kind;
    std::vector<Regex> pattern;  // empty: no split
    Behavior behavior = Behavior::isolated;
    bool invert = false;
    std::string replacement;           // metaspace: the replacement of a space
    Prepend prepend = Prepend::never;  // byte_level: whether a space is prepended
  };

  static Result<Step> parse_split(const class Fields& fields);
  static Result<Step> parse_metaspace(const class Fields& fields);
  static Result<Step> parse_byte_level(const class Fields& fields);
  static Result<Step> parse_digits(const class Fields& fields);
  Status parse_into(const nlohmann::json& spec, const std::string& path, int depth);
  Status run_from(std::size_t index, std::string_view text, bool at_start, const Sink& sink) const;
  Status split(const Step& step, std::size_t index, std::string_view text, bool at_start,
               const Sink& sink) const;

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace tandem
