// The identities of the base and the adapter that an answer is computed with: an engine that has
// other weights does not go on with it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace tandem {

struct WeightsIdentity {
  std::string base;     // the base's identity (engine/loader/base_identity.h); empty: not told
  std::string adapter;  // the adapter's digest; empty: none, or not told

  bool operator==(const WeightsIdentity&) const = default;
};

// An identity that was read further goes on with a further hash: as far as both were read they
// must agree.
inline bool is_same_base(std::string_view a, std::string_view b) {
  const std::size_t length = std::min(a.size(), b.size());
  return length == 0 ? a == b : a.substr(0, length) == b.substr(0, length);
}

}  // namespace tandem
