// JSON whose objects keep the order of their members, as templates print them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

// Nothing if the text is no JSON, nested more than kMaxJsonDepth deep, or of more values than one
// text in a request may hold. Of members with the same name the last counts.
std::optional<nlohmann::ordered_json> parse_in_order(std::string_view text);

// Of an object's text the members that are named; the others are passed over. Requires what
// parse_json_body accepts.
nlohmann::ordered_json parse_members_in_order(std::string_view object,
                                              std::span<const std::string_view> names);

// Adds a member that the object does not have, which is not checked.
void append_member(nlohmann::ordered_json& object, const std::string& name,
                   nlohmann::ordered_json value);

}  // namespace tandem
