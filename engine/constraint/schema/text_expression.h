// Sets of texts, as a pattern or a rule of a grammar describes them.
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

// Characters: no halves of surrogate pairs. Immutable.
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
  const std::vector<CodeRange>& ranges() const { return ranges_; }  // ascending, apart
  bool operator==(const CodeSet&) const = default;

 private:
  std::vector<CodeRange> ranges_;
};

// By default the empty text alone.
struct TextExpression {
  enum class Kind {
    never,       // no text
    sequence,    // of parts
    choice,      // between parts
    characters,  // one of them
    text,        // this one, UTF-8
    repeat,      // the one part, least to most times
    rule,        // what the rule of that number says
    begin,       // of a pattern: ^
    end,         // $
  };
  Kind kind = Kind::sequence;
  std::vector<TextExpression> parts;
  CodeSet characters;
  std::string text;
  std::int64_t least = 0;
  std::int64_t most = -1;  // -1: any number of times
  std::int32_t rule = -1;

  bool is_empty_text() const { return kind == Kind::sequence && parts.empty(); }
};

// What has no texts, and what says nothing, is left out of what is made of it.
TextExpression no_text();
TextExpression literal(std::string text);
TextExpression one_of(CodeSet characters);
TextExpression in_sequence(std::vector<TextExpression> parts);
TextExpression any_of(std::vector<TextExpression> parts);
TextExpression repeated(TextExpression part, std::int64_t least, std::int64_t most = -1);
TextExpression maybe(TextExpression part);
TextExpression by_rule(std::int32_t rule);

void append_utf8(char32_t c, std::string& text);
// Of valid UTF-8; what is none ends it.
std::u32string code_points(const std::string& text);

}  // namespace tandem
