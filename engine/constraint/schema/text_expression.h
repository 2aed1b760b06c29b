// Sets of texts, described by a pattern or a grammar rule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

struct CodeRange {
  char32_t first = 0;
  char32_t last = 0;
  bool operator==(const CodeRange&) const = default;
};

// A set of characters without surrogates. Immutable.
class CodeSet {
 public:
  CodeSet() = default;
  explicit CodeSet(std::vector<CodeRange> ranges);  // in any order

  static const CodeSet& all();
  static CodeSet of(char32_t c) { return CodeSet({{c, c}}); }

  CodeSet without(const CodeSet& other) const;
  CodeSet within(const CodeSet& other) const { return without(all().without(other)); }
  bool contains(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CodeRange>& ranges() const {
    return ranges_;
  }  // ascending, neither
     // overlapping nor adjacent
  bool operator==(const CodeSet&) const = default;

 private:
  std::vector<CodeRange> ranges_;
};

// The default is the set of the empty text.
struct TextExpression {
  enum class Kind {
    never,       // the empty set
    sequence,    // the parts in order
    choice,      // one of the parts
    characters,  // one character of the set
    text,        // this text, UTF-8
    repeat,      // the only part, `least` to `most` times
    rule,        // a text of the rule with that number
    begin,       // in a pattern: ^
    end,         // in a pattern: $
  };
  Kind kind = Kind::sequence;
  std::vector<TextExpression> parts;
  CodeSet characters;
  std::string text;
  std::int64_t least = 0;
  std::int64_t most = -1;  // -1: unlimited
  std::int32_t rule = -1;

  bool is_empty_text() const { return kind == Kind::sequence && parts.empty(); }
};

// The functions below simplify: empty sets and empty texts are removed from the result.
TextExpression no_text();
TextExpression literal(std::string text);
TextExpression one_of(CodeSet characters);
TextExpression in_sequence(std::vector<TextExpression> parts);
TextExpression any_of(std::vector<TextExpression> parts);
TextExpression repeated(TextExpression part, std::int64_t least, std::int64_t most = -1);
TextExpression maybe(TextExpression part);
TextExpression by_rule(std::int32_t rule);

void append_utf8(char32_t c, std::string& text);
// Decodes UTF-8 up to the first invalid byte.
std::u32string code_points(const std::string& text);

}  // namespace tandem
