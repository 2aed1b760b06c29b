// The tokens of one sequence: its prompt, then its output. The last ones may be unknown until steps
// in flight have ended.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/ids/token_id.h"

namespace tandem {

class SequenceTokens {
 public:
  // `before`: output of the sequence on an engine that failed.
  SequenceTokens(const std::vector<TokenId>& prompt, std::span<const TokenId> before)
      : tokens_(prompt), prompt_len_(size()) {
    tokens_.insert(tokens_.end(), before.begin(), before.end());
  }

  // An unknown token is -1 - (index of the sample in its step).
  const std::vector<TokenId>& all() const { return tokens_; }
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t prompt_len() const { return prompt_len_; }
  std::int64_t output_len() const { return size() - prompt_len_; }
  std::int64_t known_len() const { return size() - pending_; }
  std::int32_t pending() const { return pending_; }  // the number of unknown ones
  // The first `count`, or fewer if some of them are unknown.
  std::span<const TokenId> known(std::int64_t count) const {
    return {tokens_.data(), static_cast<std::size_t>(std::min(count, known_len()))};
  }

  // Adds the place of a token that will be this sample of a step.
  void expect(std::int32_t sample) {
    tokens_.push_back(-1 - sample);
    ++pending_;
  }
  // Sets the oldest unknown token, whose index the caller expects to be `at`.
  void learn(std::int64_t at, TokenId token) {
    TANDEM_CHECK(at == known_len(), "token {} after {}", at, known_len());
    tokens_[static_cast<std::size_t>(at)] = token;
    --pending_;
  }
  // Removes the unknown ones.
  void drop_pending() {
    tokens_.resize(static_cast<std::size_t>(known_len()));
    pending_ = 0;
  }

 private:
  std::vector<TokenId> tokens_;
  std::int64_t prompt_len_;
  std::int32_t pending_ = 0;
};

}  // namespace tandem
