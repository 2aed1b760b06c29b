// Compares names to find out whether an adapter was made for the model that is served.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// The possible names of a model in `folder`: the folder's name, the name in the path of a Hugging
// Face cache (models--ORG--NAME/snapshots/HASH), and `served`. The first is the one to show.
std::vector<std::string> base_names_of(const std::string& folder, const std::string& served);

// True if `named`, an adapter's base_model_name_or_path, may be a model of these names: the last
// path components are equal, ignoring case. Also true if either is unknown (empty).
bool is_base_name(std::string_view named, const std::vector<std::string>& names);

// Makes a text of unknown origin safe for the log: one line, ASCII, 100 bytes at most.
std::string printable(std::string_view text);

}  // namespace tandem
