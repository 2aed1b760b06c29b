// Members of JSON objects that keep their order, added where memory is short.
#pragma once

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

// Adds a member that the object does not have, which is not checked. Takes `value` alone; where
// there is no memory, all is as before.
//
// The object is nlohmann's vector of pairs with a constant name, which a vector that grows does not
// move but copies, to the last leaf of their values, and destroys, which takes memory once more and
// ends the process where there is none (json_release.h). So this one grows by our hand.
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
