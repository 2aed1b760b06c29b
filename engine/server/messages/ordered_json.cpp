#include "engine/server/messages/ordered_json.h"

#include <utility>

#include "base/json/json_builder.h"
#include "base/json/json_members.h"
#include "base/json/json_release.h"
#include "base/json/json_text.h"

namespace tandem {

using Json = nlohmann::ordered_json;

std::optional<Json> parse_in_order(std::string_view text) {
  // Lower than the limit of the body, because a body may contain many such texts, which count as
  // strings there.
  constexpr std::size_t kMaxTreeBytes = kMaxJsonTreeBytes / 8;
  if (nests_deeper_than(text, kMaxJsonDepth)) return std::nullopt;
  if (json_tree_bytes(text) > kMaxTreeBytes) return std::nullopt;
  JsonBuilder<Json> builder;
  if (!Json::sax_parse(text, &builder)) return std::nullopt;
  return builder.take_result();
}

Json parse_members_in_order(std::string_view object, std::span<const std::string_view> names) {
  JsonBuilder<Json> builder(names);
  if (!Json::sax_parse(object, &builder)) return Json::object();
  return builder.take_result();
}

void append_member(Json& object, const std::string& name, Json value) {
  const EmptiedFromLeaves unless_taken(value);
  add_member(object.get_ref<Json::object_t&>(), name, value);
}

}  // namespace tandem
