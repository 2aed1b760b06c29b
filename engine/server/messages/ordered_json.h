// JSON whose objects keep the order of their members, because templates print them in that order.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

// Nothing if the text is not JSON, nested deeper than kMaxJsonDepth, or has more values than one
// text in a request may have. Of members with the same name the last is used.
std::optional<nlohmann::ordered_json> parse_in_order(std::string_view text);

// Returns the named members of an object's text and skips the others. Requires text that
// parse_json_body accepts.
nlohmann::ordered_json parse_members_in_order(std::string_view object,
                                              std::span<const std::string_view> names);

// Adds a member that the object must not have yet; this is not checked.
void append_member(nlohmann::ordered_json& object, const std::string& name,
                   nlohmann::ordered_json value);

}  // namespace tandem
