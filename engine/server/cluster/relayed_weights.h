// The identity of the weights of a relayed answer. The router receives it when the answer begins
// and passes it to an engine that continues the answer, which refuses if its weights differ.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/ids/weights_identity.h"
#include "engine/server/messages/errors.h"

namespace tandem {

// Not thread-safe.
class RelayedWeights {
 public:
  // Returns the digest of the adapter that a request submitted now would use; null if it uses none
  // or the digest is unknown. A different shared owner means different content, even if the digests
  // are equal.
  using AdapterDigest = std::function<std::shared_ptr<const std::string>()>;

  // Sets the weights that the answer began with. Not called for a new answer.
  void want(WeightsIdentity wanted) { wanted_ = std::move(wanted); }
  void serve(std::string base, AdapterDigest adapter);

  // Call it before the requests are submitted. 409: the weights differ from those that the answer
  // began with.
  MaybeError check();
  // Call it after the submission: 503 if the adapter was replaced in between.
  MaybeError check_again() const;
  // Returns the comment for the router, with its line break; empty if the weights are unknown. Only
  // after check().
  std::string line() const;

 private:
  std::optional<WeightsIdentity> wanted_;
  std::string base_;
  AdapterDigest adapter_;
  std::shared_ptr<const std::string> digest_;  // as found by check()
};

}  // namespace tandem
