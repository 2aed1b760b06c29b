// Parsing of untrusted JSON files within limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json/json_text.h"
#include "base/status.h"

namespace tandem {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // keeps the file's order of keys

// A limit, because ordered_json compares each new key with all others.
inline constexpr std::size_t kMaxOrderedKeys = 10'000;

// Requires an object at the top, no duplicate key in an object, nesting of at most kMaxJsonDepth,
// and UTF-8. J is Json or OrderedJson.
template <typename J>
Result<J> parse_json_object(std::string_view text);

// Reads and parses a file under the same rules; every message contains its path.
template <typename J>
Result<J> read_json_object(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace tandem
