// Where in a prompt an activated LoRA begins to act (Adapter::invocation).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids/token_id.h"

namespace tandem {

// Returns the start of the last occurrence of `invocation` in `prompt`: from this token on the
// adapter acts, in the answer, too. An empty invocation is found at 0. No value: there is none, and
// the base model answers. What the answer holds counts only when it is part of a later prompt.
inline std::optional<std::int64_t> find_invocation(std::span<const TokenId> invocation,
                                                   std::span<const TokenId> prompt) {
  if (invocation.empty()) return 0;
  // Both texts may come from strangers, so the search takes linear time: Knuth, Morris and Pratt's,
  // from the end on. border[i] is the length of the longest proper prefix of the reversed
  // invocation's first i + 1 tokens that is also their suffix.
  const std::size_t length = invocation.size();
  const auto reversed = [&](std::size_t i) { return invocation[length - 1 - i]; };
  std::vector<std::size_t> border(length, 0);
  std::size_t matched = 0;
  const auto take = [&](TokenId token) {
    while (matched > 0 && token != reversed(matched)) matched = border[matched - 1];
    if (token == reversed(matched)) ++matched;
  };
  for (std::size_t i = 1; i < length; ++i) {
    take(reversed(i));
    border[i] = matched;
  }
  matched = 0;
  for (std::size_t at = prompt.size(); at > 0; --at) {
    take(prompt[at - 1]);
    if (matched == length) return static_cast<std::int64_t>(at - 1);
  }
  return std::nullopt;
}

}  // namespace tandem
