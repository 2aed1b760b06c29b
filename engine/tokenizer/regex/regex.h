// The regular expressions of tokenizer.json, which are written for Oniguruma, run by PCRE2 with
// JIT.
//
// The two dialects agree on the constructs in published tokenizers, after the translation of a few
// escapes with other meanings (\s, \w, scripts). Constructs that differ and cannot be translated
// are refused by name.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

struct TextRange {
  std::size_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
};

// Immutable; find() is thread-safe.
class Regex {
 public:
  static Result<Regex> compile(std::string_view pattern);
  // Makes a pattern that matches exactly `text`.
  static Result<Regex> literal(std::string_view text);

  // Finds the first match at or after `from`. `text` must be valid UTF-8 and `from` the start of a
  // character; neither is checked. `found` is false if there is none. Fails if a pathological
  // pattern reaches a limit.
  Status find(std::string_view text, std::size_t from, TextRange& match, bool& found) const;

  // Calls part(span, is_match) for all of the text, in order: for matches and the text between
  // them. `part` returns a Status; the first failure ends the iteration. Empty matches split the
  // text but are not reported.
  template <typename Part>
  Status split(std::string_view text, Part&& part) const;

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  static Result<Regex> build(const std::string& translated, std::string_view original);

  std::shared_ptr<const Code> code_;
};

// Returns the same pattern in PCRE2's dialect; an error names a construct without an equivalent
// there.
Result<std::string> translate_oniguruma(std::string_view pattern);

template <typename Part>
Status Regex::split(std::string_view text, Part&& part) const {
  std::size_t done = 0;  // end of the reported text
  std::size_t from = 0;
  while (from <= text.size()) {
    TextRange match;
    bool found = false;
    if (Status s = find(text, from, match, found); !s) return s;
    if (!found) break;
    if (match.begin > done) {
      if (Status s = part(TextRange{done, match.begin}, false); !s) return s;
      done = match.begin;
    }
    if (match.empty()) {  // continue one character later
      from = match.end + 1;
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80) ++from;
      continue;
    }
    if (Status s = part(match, true); !s) return s;
    done = from = match.end;
  }
  if (done < text.size()) return part(TextRange{done, text.size()}, false);
  return {};
}

}  // namespace tandem
