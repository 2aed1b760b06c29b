#include "engine/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "engine/tokenizer/json_fields.h"
#include "engine/tokenizer/utf8.h"

namespace tandem {
namespace {

bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

// Normalizes the parts of the text that need it. ASCII is unchanged by all four forms and never
// combines with the characters before it, so a part ends at each ASCII character. It starts one
// character earlier, because a following mark may combine with an ASCII letter.
Status normalize_unicode(int options, std::string& text) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (is_ascii(text[i])) {
      ++i;
      continue;
    }
    const std::size_t begin = i > done ? i - 1 : i;
    while (i < text.size() && !is_ascii(text[i])) ++i;
    out.append(text, done, begin - done);
    utf8proc_uint8_t* raw = nullptr;
    const utf8proc_ssize_t size = utf8proc_map(
        reinterpret_cast<const utf8proc_uint8_t*>(text.data() + begin),
        static_cast<utf8proc_ssize_t>(i - begin), &raw, static_cast<utf8proc_option_t>(options));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(raw, &std::free);
    if (size < 0)
      return error(StatusCode::internal, "Unicode normalization: {}", utf8proc_errmsg(size));
    out.append(reinterpret_cast<const char*>(raw), static_cast<std::size_t>(size));
    done = i;
  }
  if (done == 0) return {};
  out.append(text, done, text.size() - done);
  text = std::move(out);
  return {};
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t pos = 0; pos < text.size();) {
    const char32_t c = utf8::next(text, pos);
    if (c == 0x130) {  // the only character whose lower case is two characters: i and a dot above
      out += "i\xCC\x87";
    } else {
      utf8::append(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
  }
  return out;
}

void strip(bool left, bool right, std::string& text) {
  std::size_t begin = 0;
  while (left && begin < text.size()) {
    std::size_t after = begin;
    if (!utf8::is_white_space(utf8::next(text, after))) break;
    begin = after;
  }
  std::size_t end = text.size();
  while (right && end > begin) {
    const std::size_t before = utf8::previous(text, end);
    std::size_t pos = before;
    if (!utf8::is_white_space(utf8::next(text, pos))) break;
    end = before;
  }
  text = text.substr(begin, end - begin);
}

}  // namespace

Result<Regex> parse_pattern(const nlohmann::json& spec, const std::string& path) {
  TANDEM_ASSIGN(Fields fields, Fields::of(spec, path));
  if (fields.find("String") != nullptr) {
    TANDEM_ASSIGN(std::string text, fields.string("String"));
    return Regex::literal(text);
  }
  if (fields.find("Regex") == nullptr) return invalid("{} must have \"String\" or \"Regex\"", path);
  TANDEM_ASSIGN(std::string text, fields.string("Regex"));
  return Regex::compile(text);
}

Result<std::string> replace_all(const Regex& pattern, std::string_view with,
                                std::string_view text) {
  std::string out;
  out.reserve(text.size());
  TANDEM_TRY(pattern.split(text, [&](TextRange span, bool is_match) {
    out += is_match ? with : text.substr(span.begin, span.end - span.begin);
    return Status();
  }));
  return out;
}

Result<Normalizer> Normalizer::parse(const nlohmann::json& spec) {
  Normalizer normalizer;
  if (!spec.is_null()) TANDEM_TRY(parse_into(spec, "normalizer", 0, normalizer.steps_));
  return normalizer;
}

Status Normalizer::parse_into(const nlohmann::json& spec, const std::string& path, int depth,
                              std::vector<Step>& steps) {
  if (depth > kMaxSequenceDepth) return invalid("{}: sequences nested too deeply", path);
  TANDEM_ASSIGN(Fields fields, Fields::of(spec, path));
  TANDEM_ASSIGN(const std::string type, fields.string("type"));
  if (type == "Sequence") {
    TANDEM_ASSIGN(const nlohmann::json* items, fields.array("normalizers"));
    for (std::size_t i = 0; i < items->size(); ++i)
      TANDEM_TRY(
          parse_into((*items)[i], fmt::format("{}.normalizers[{}]", path, i), depth + 1, steps));
    return {};
  }
  Step step{};
  if (type == "NFC") {
    step.kind = Kind::nfc;
  } else if (type == "NFD") {
    step.kind = Kind::nfd;
  } else if (type == "NFKC") {
    step.kind = Kind::nfkc;
  } else if (type == "NFKD") {
    step.kind = Kind::nfkd;
  } else if (type == "Lowercase") {
    step.kind = Kind::lowercase;
  } else if (type == "Prepend") {
    step.kind = Kind::prepend;
    TANDEM_ASSIGN(step.text, fields.string("prepend"));
  } else if (type == "Replace") {
    step.kind = Kind::replace;
    TANDEM_ASSIGN(step.text, fields.string("content"));
    const nlohmann::json* pattern = fields.find("pattern");
    if (pattern == nullptr) return invalid("{}.pattern is missing", path);
    TANDEM_ASSIGN(Regex regex, parse_pattern(*pattern, path + ".pattern"));
    step.pattern.push_back(std::move(regex));
  } else if (type == "Strip") {
    step.kind = Kind::strip;
    TANDEM_ASSIGN(step.left, fields.boolean("strip_left", true));
    TANDEM_ASSIGN(step.right, fields.boolean("strip_right", true));
  } else {
    return invalid("{}: normalizer \"{}\" is not supported", path, type);
  }
  steps.push_back(std::move(step));
  return {};
}

Result<std::string> Normalizer::apply(std::string_view text) const {
  std::string result(text);
  for (const Step& step : steps_) TANDEM_TRY(apply_step(step, result));
  return result;
}

Status Normalizer::apply_step(const Step& step, std::string& text) {
  switch (step.kind) {
    case Kind::nfc:
      return normalize_unicode(UTF8PROC_STABLE | UTF8PROC_COMPOSE, text);
    case Kind::nfd:
      return normalize_unicode(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, text);
    case Kind::nfkc:
      return normalize_unicode(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT, text);
    case Kind::nfkd:
      return normalize_unicode(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, text);
    case Kind::prepend:
      if (!text.empty()) text.insert(0, step.text);
      return {};
    case Kind::replace: {
      TANDEM_ASSIGN(text, replace_all(step.pattern.front(), step.text, text));
      return {};
    }
    case Kind::strip:
      strip(step.left, step.right, text);
      return {};
    case Kind::lowercase:
      text = lowercase(text);
      return {};
  }
  return {};
}

}  // namespace tandem
