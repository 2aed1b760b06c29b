// The identities of the base model and the adapter with which an answer is computed. An engine that
// has other weights does not continue that answer.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace tandem {

struct WeightsIdentity {
  std::string base;     // the base's identity (engine/loader/base_identity.h); empty: unknown
  std::string adapter;  // the adapter's digest; empty: no adapter, or unknown

  bool operator==(const WeightsIdentity&) const = default;
};

// An identity of a longer prefix of the weights appends further hashes, so two identities must
// agree as far as both go.
inline bool is_same_base(std::string_view a, std::string_view b) {
  const std::size_t length = std::min(a.size(), b.size());
  return length == 0 ? a == b : a.substr(0, length) == b.substr(0, length);
}

}  // namespace tandem
