#include "engine/constraint/schema/json_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "engine/service/engine_defaults.h"

namespace tandem {
namespace {

using Kind = TextExpression::Kind;

constexpr std::array<std::pair<char32_t, char>, 7> kEscapes = {
    {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};

CodeSet unescaped() {
  return CodeSet({{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0x10FFFF}});
}

std::string escaped(char32_t c) {
  for (const auto& [character, letter] : kEscapes) {
    if (character == c) return std::string("\\") + letter;
  }
  return fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
}

// A backslash and a valid continuation; numbers must not be half of a surrogate pair.
TextExpression any_escape() {
  const CodeSet digit({{'0', '9'}, {'A', 'F'}, {'a', 'f'}});
  const CodeSet no_d({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}});
  const CodeSet d({{'D', 'D'}, {'d', 'd'}});
  const CodeSet high({{'8', '9'}, {'A', 'B'}, {'a', 'b'}});
  const CodeSet low({{'C', 'F'}, {'c', 'f'}});
  const auto more = [&](std::int64_t count) { return repeated(one_of(digit), count, count); };
  const TextExpression number =
      any_of({in_sequence({one_of(no_d), more(3)}),
              in_sequence({one_of(d), one_of(CodeSet({{'0', '7'}})), more(2)}),
              in_sequence({one_of(d), one_of(high), more(2), literal("\\u"), one_of(d), one_of(low),
                           more(2)})});
  return in_sequence({literal("\\"), any_of({one_of(CodeSet({{'"', '"'},
                                                             {'\\', '\\'},
                                                             {'/', '/'},
                                                             {'b', 'b'},
                                                             {'f', 'f'},
                                                             {'n', 'n'},
                                                             {'r', 'r'},
                                                             {'t', 't'}})),
                                             in_sequence({literal("u"), number})})});
}

}  // namespace

JsonTexts::JsonTexts(GrammarRules& rules)
    : white_space_(rules.add()),
      character_(rules.add()),
      characters_(rules.add()),
      string_(rules.add()) {
  const CodeSet spaces({{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}});
  rules.define(white_space_, repeated(one_of(spaces), 0, engine_defaults::kMaxJsonWhitespace));
  const std::int32_t escape = rules.add();
  rules.define(escape, any_escape());
  rules.define(character_, any_of({one_of(unescaped()), by_rule(escape)}));
  const TextExpression plain = repeated(one_of(unescaped()), 0);
  rules.define(characters_,
               in_sequence({plain, repeated(in_sequence({by_rule(escape), plain}), 0)}));
  rules.define(string_, in_sequence({literal("\""), by_rule(characters_), literal("\"")}));
}

TextExpression JsonTexts::string_of(const TextExpression& texts) const {
  return in_sequence({literal("\""), within_string(texts), literal("\"")});
}

TextExpression JsonTexts::characters_of(const CodeSet& set) const {
  if (set == CodeSet::all()) return any_character();
  std::vector<TextExpression> parts{one_of(set.within(unescaped()))};
  std::vector<CodeRange> letters;
  for (const auto& [character, letter] : kEscapes) {
    if (!set.contains(character)) continue;
    const auto code = static_cast<char32_t>(letter);
    letters.push_back({code, code});
  }
  if (!letters.empty()) {
    parts.push_back(in_sequence({literal("\\"), one_of(CodeSet(std::move(letters)))}));
  }
  // Other control characters are included only if a pattern names them, not if a negated class
  // merely includes them, because that is never intended.
  constexpr int kFew = 8;
  std::vector<TextExpression> controls;
  for (char32_t c = 0; c < 0x20; ++c) {
    const bool has_letter =
        std::any_of(kEscapes.begin(), kEscapes.end(),
                    [c](const std::pair<char32_t, char>& escape) { return escape.first == c; });
    if (!has_letter && set.contains(c)) controls.push_back(literal(escaped(c)));
  }
  if (controls.size() <= kFew) {
    for (TextExpression& control : controls) parts.push_back(std::move(control));
  }
  return any_of(std::move(parts));
}

TextExpression JsonTexts::within_string(const TextExpression& texts) const {
  switch (texts.kind) {
    case Kind::characters:
      return characters_of(texts.characters);
    case Kind::text: {
      std::string result;
      for (const char32_t c : code_points(texts.text)) {
        if (c < 0x20 || c == '"' || c == '\\') {
          result += escaped(c);
        } else {
          append_utf8(c, result);
        }
      }
      return literal(std::move(result));
    }
    case Kind::repeat: {
      const TextExpression& part = texts.parts.front();
      const bool any = part.kind == Kind::characters && part.characters == CodeSet::all();
      if (any && texts.least == 0 && texts.most < 0) return any_characters();
      return repeated(within_string(part), texts.least, texts.most);
    }
    case Kind::sequence:
    case Kind::choice: {
      std::vector<TextExpression> parts;
      for (const TextExpression& part : texts.parts) parts.push_back(within_string(part));
      return texts.kind == Kind::sequence ? in_sequence(std::move(parts))
                                          : any_of(std::move(parts));
    }
    default:
      break;
  }
  return texts;
}

// Returns the continuations of names that share their first `depth` characters.
TextExpression JsonTexts::but(std::span<const std::u32string> names, std::size_t depth) const {
  constexpr std::size_t kMostDepth = 100;
  if (depth > kMostDepth) return no_text();
  std::vector<TextExpression> parts;
  const bool ends_here = !names.empty() && names.front().size() == depth;
  if (!ends_here) parts.push_back(literal("\""));
  std::vector<CodeRange> next;
  for (std::size_t i = ends_here ? 1 : 0; i < names.size();) {
    const char32_t c = names[i][depth];
    std::size_t end = i;
    while (end < names.size() && names[end][depth] == c) ++end;
    next.push_back({c, c});
    parts.push_back(
        in_sequence({characters_of(CodeSet::of(c)), but(names.subspan(i, end - i), depth + 1)}));
    i = end;
  }
  parts.push_back(in_sequence({characters_of(CodeSet::all().without(CodeSet(std::move(next)))),
                               any_characters(), literal("\"")}));
  return any_of(std::move(parts));
}

TextExpression JsonTexts::string_but(std::span<const std::string> names) const {
  if (names.empty()) return any_string();
  std::vector<std::u32string> sorted;
  for (const std::string& name : names) sorted.push_back(code_points(name));
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return in_sequence({literal("\""), but(sorted, 0)});
}

std::string JsonTexts::quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || c == '"' || c == '\\') {
      result += escaped(byte);
    } else {
      result += c;
    }
  }
  return result + '"';
}

TextExpression JsonTexts::literal_of(const nlohmann::ordered_json& value) const {
  if (value.is_string()) return literal(quoted(value.get_ref<const std::string&>()));
  if (!value.is_structured()) return literal(value.dump());
  std::vector<TextExpression> parts;
  parts.push_back(literal(value.is_object() ? "{" : "["));
  parts.push_back(white_space());
  bool first = true;
  for (const auto& [name, each] : value.items()) {
    if (!first) {
      parts.push_back(literal(","));
      parts.push_back(white_space());
    }
    first = false;
    if (value.is_object()) {
      parts.push_back(literal(quoted(name)));
      parts.push_back(white_space());
      parts.push_back(literal(":"));
      parts.push_back(white_space());
    }
    parts.push_back(literal_of(each));
    parts.push_back(white_space());
  }
  parts.push_back(literal(value.is_object() ? "}" : "]"));
  return in_sequence(std::move(parts));
}

}  // namespace tandem
