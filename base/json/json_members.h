// Adds members to JSON objects that keep their order, safely if memory is short.
#pragma once

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

// Adds a member that the object must not have yet; this is not checked. Only `value` is taken; if
// memory runs out, nothing changes.
//
// The object is nlohmann's vector of pairs with a constant name. When such a vector grows, it
// copies the pairs with all their values instead of moving them, and destroys the old ones, which
// needs memory again and ends the process if there is none (json_release.h). So it is grown here.
inline void add_member(nlohmann::ordered_json::object_t& object, std::string name,
                       nlohmann::ordered_json& value) {
  std::vector<nlohmann::ordered_json::object_t::value_type>& members = object;
  if (members.size() == members.capacity()) {
    std::vector<nlohmann::ordered_json::object_t::value_type> wider;
    wider.reserve(std::max(std::size_t{1}, 2 * members.size()));
    for (const auto& member : members) wider.emplace_back(member.first, nullptr);
    for (std::size_t i = 0; i < members.size(); ++i) wider[i].second.swap(members[i].second);
    members.swap(wider);
  }
  members.emplace_back(std::move(name), std::move(value));
}

}  // namespace tandem
