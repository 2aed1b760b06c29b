// What a relayed answer is computed with: the router is told when the answer begins, and says it to
// whoever is to go on with the answer, who refuses if it has other weights.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/weights_identity.h"
#include "engine/server/messages/errors.h"

namespace tandem {

// One thread at a time.
class RelayedWeights {
 public:
  // The digest of the adapter that a request submitted now would get; null: it wants none, or that
  // is not known. Another owner is another content, even if the digests are alike.
  using AdapterDigest = std::function<std::shared_ptr<const std::string>()>;

  // What the answer began with; nothing: it begins here.
  void want(WeightsIdentity wanted) { wanted_ = std::move(wanted); }
  void serve(std::string base, AdapterDigest adapter);

  // Before the requests are submitted. 409: these are not the weights that the answer began with.
  MaybeError check();
  // After that: 503 if the adapter was replaced in between.
  MaybeError check_again() const;
  // The comment that tells the router, with its line break; empty: nothing is known. After check().
  std::string line() const;

 private:
  std::optional<WeightsIdentity> wanted_;
  std::string base_;
  AdapterDigest adapter_;
  std::shared_ptr<const std::string> digest_;  // as check() found it
};

}  // namespace tandem
