// Values of an engine that no setting changes. The defaults of its settings are those of its
// options.
#pragma once

#include <cstdint>

namespace tandem::engine_defaults {

inline constexpr std::int32_t kPageTokens = 16;
// The maximal number of whitespace characters between two tokens of constrained JSON. Without a
// bound, a model that favours line breaks may spend all of its tokens on them.
inline constexpr int kMaxJsonWhitespace = 16;

}  // namespace tandem::engine_defaults
