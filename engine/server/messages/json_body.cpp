#include "engine/server/messages/json_body.h"

#include "base/json/json_builder.h"
#include "base/json/json_text.h"
#include "base/text/utf8.h"

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
  if (json_tree_bytes(body) > kMaxJsonTreeBytes) {
    return ApiError{413,
                    fmt::format("The body's JSON holds so many values that they would take more "
                                "than {} MB; send fewer in one request",
                                kMaxJsonTreeBytes >> 20),
                    {},
                    "body_too_long",
                    0};
  }
  JsonBuilder<nlohmann::json> builder;
  if (!nlohmann::json::sax_parse(body, &builder)) {
    if (builder.wrong_byte() > 0) {
      return not_json(fmt::format("The body is not valid JSON at byte {}", builder.wrong_byte()));
    }
    return not_json("The body is not valid JSON: a number is out of range");
  }
  object = builder.take_result();
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
