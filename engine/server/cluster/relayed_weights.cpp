#include "engine/server/cluster/relayed_weights.h"

#include <fmt/format.h>

#include <utility>

namespace tandem {
namespace {

constexpr int kConflict = 409;
constexpr int kUnavailable = 503;
constexpr int kRetryAfterS = 1;

}  // namespace

void RelayedWeights::serve(std::string base, AdapterDigest adapter) {
  base_ = std::move(base);
  adapter_ = std::move(adapter);
}

MaybeError RelayedWeights::check() {
  digest_ = adapter_ ? adapter_() : nullptr;
  if (!wanted_) return std::nullopt;
  const bool same_adapter =
      digest_ == nullptr ? wanted_->adapter.empty() : *digest_ == wanted_->adapter;
  if (is_same_base(wanted_->base, base_) && same_adapter) return std::nullopt;
  return ApiError{kConflict,
                  fmt::format("This engine's {} is not the one that the answer began with, so it "
                              "cannot continue the answer",
                              same_adapter ? "base model" : "adapter of that name"),
                  {},
                  "other_weights",
                  0};
}

MaybeError RelayedWeights::check_again() const {
  if (!adapter_ || adapter_() == digest_) return std::nullopt;
  return ApiError{kUnavailable,
                  "The adapter was replaced while this request was taken up; ask again",
                  {},
                  "unavailable",
                  kRetryAfterS};
}

std::string RelayedWeights::line() const {
  if (base_.empty() && digest_ == nullptr) return {};
  return fmt::format(":weights {} {}\n", base_.empty() ? "-" : base_,
                     digest_ == nullptr ? "-" : *digest_);
}

}  // namespace tandem
