#include "engine/server/messages/json_body.h"

#include <exception>

#include "base/json_text.h"
#include "base/utf8.h"

namespace tandem {
namespace {

ApiError not_json(std::string message) {
  return {400, std::move(message), {}, "invalid_json", 0};
}

}  // namespace

MaybeError parse_json_body(std::string_view body, nlohmann::json& object) {
  if (const std::size_t at = utf8::find_invalid(body); at != std::string_view::npos) {
    return not_json(fmt::format("The body is not valid UTF-8 at byte {}", at));
  }
  if (nests_deeper_than(body, kMaxJsonDepth)) {
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

MaybeError take_bool(const nlohmann::json& object, const char* field, bool& value) {
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (!found->is_boolean()) return bad_field(field, "'{}' must be true or false", field);
  value = found->get<bool>();
  return std::nullopt;
}

}  // namespace tandem
