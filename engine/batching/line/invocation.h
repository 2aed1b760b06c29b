// Where in a prompt an activated LoRA begins to act (Adapter::invocation).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "base/ids/token_id.h"

namespace tandem {

// Returns the start of the last occurrence of `invocation` in `prompt`: from this token on the
// adapter acts, in the answer, too. An empty invocation is found at 0. No value: there is none, and
// the base model answers. What the answer holds counts only when it is part of a later prompt.
inline std::optional<std::int64_t> find_invocation(std::span<const TokenId> invocation,
                                                   std::span<const TokenId> prompt) {
  if (invocation.empty()) return 0;
  const auto at = std::find_end(prompt.begin(), prompt.end(), invocation.begin(), invocation.end());
  if (at == prompt.end()) return std::nullopt;
  return at - prompt.begin();
}

}  // namespace tandem
