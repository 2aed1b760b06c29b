// Decodes Content-Encoding, within a size limit.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

enum class ContentCoding { identity, deflated, unknown };  // deflated: gzip or zlib

ContentCoding content_coding(std::string_view header);

enum class Inflated { done, too_long, malformed };

// `packed`: gzip's (one or more members) or zlib's format. Never makes more than `max_bytes`.
Inflated inflate_bytes(std::string_view packed, std::size_t max_bytes, std::string& plain);

}  // namespace tandem
