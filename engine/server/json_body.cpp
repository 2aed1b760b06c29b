#include "engine/server/json_body.h"

#include <exception>

namespace tandem {
namespace {

ApiError not_json(std::string message) {
  return {400, std::move(message), {}, "invalid_json", 0};
}

// Before parsing, because the parser's own nesting is bounded by memory only.
bool deeper_than(std::string_view text, int limit) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > limit) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view bytes) {
  std::size_t i = 0;
  while (i < bytes.size()) {
    const auto lead = static_cast<unsigned char>(bytes[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = lead >= 0xC2 && lead < 0xE0   ? 2
                               : lead >= 0xE0 && lead < 0xF0 ? 3
                               : lead >= 0xF0 && lead < 0xF5 ? 4
                                                             : 0;
    if (length == 0 || bytes.size() - i < length) return i;
    for (std::size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(bytes[i + k]) & 0xC0) != 0x80) return i;
    }
    const auto second = static_cast<unsigned char>(bytes[i + 1]);
    const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
    const bool surrogate = lead == 0xED && second > 0x9F;
    const bool too_large = lead == 0xF4 && second > 0x8F;
    if (overlong || surrogate || too_large) return i;
    i += length;
  }
  return std::string_view::npos;
}

MaybeError parse_json_body(std::string_view body, nlohmann::json& object) {
  if (const std::size_t at = find_invalid_utf8(body); at != std::string_view::npos) {
    return not_json(fmt::format("The body is not valid UTF-8 at byte {}", at));
  }
  if (deeper_than(body, kMaxJsonDepth)) {
    return not_json(fmt::format("The body's JSON is nested more than {} deep", kMaxJsonDepth));
  }
  try {
    object = nlohmann::json::parse(body);
  } catch (const nlohmann::json::parse_error& failure) {
    return not_json(fmt::format("The body is not valid JSON at byte {}", failure.byte));
  } catch (const std::exception&) {  // a number that no double can hold
    return not_json("The body is not valid JSON: a number is out of range");
  }
  if (!object.is_object()) {
    return not_json(fmt::format("The body must be a JSON object, not {}", object.type_name()));
  }
  return std::nullopt;
}

}  // namespace tandem
