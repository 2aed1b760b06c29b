// Whether an adapter was made for the model that is served, told by names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// What a model in `folder` may be called: the folder's name, the name in the path of a Hugging Face
// cache (models--ORG--NAME/snapshots/HASH), and `served`. The first is the one to show.
std::vector<std::string> base_names_of(const std::string& folder, const std::string& served);

// Whether `named`, an adapter's base_model_name_or_path, may be a model of these names: the last
// parts of both are the same, whatever their case. Also where either is unknown (empty).
bool is_base_name(std::string_view named, const std::vector<std::string>& names);

// A stranger's text for the log: on one line, ASCII, 100 bytes at most.
std::string printable(std::string_view text);

}  // namespace tandem
