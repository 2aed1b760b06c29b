// Computes the tokens that may come next in one sequence, as allowed by its constraint, its allowed
// tokens and its bad words together, as one mask for the sampler.
//
// The format of a mask is defined in gpu/ops.h. The filter gets all tokens at each call and rolls
// back by itself if they have changed (a step was void and is computed again), so that callers need
// not reset it with their sequence. A preempted sequence keeps its tokens and its filter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids/token_id.h"
#include "base/status.h"
#include "engine/constraint/added_tokens.h"
#include "engine/service/generation.h"
#include "gpu/ops.h"

namespace tandem {

class CompiledConstraint;

// The rules that the continuations of a request share. Immutable.
class TokenRules {
 public:
  // Tokens whose texts are others than those that the constraint was compiled for. It allows them
  // where it allows the texts, and never those without a text, nor other tokens that it was not
  // compiled for.
  using Added = std::map<TokenId, std::string>;

  // Requires token ids in `sampling` and `added` below `vocab_size`, which may be more than the
  // constraint was compiled for. An end token that it was not compiled with may come where one that
  // it was compiled with may.
  TokenRules(const SamplingParams& sampling, std::shared_ptr<const CompiledConstraint> constraint,
             std::int32_t vocab_size, std::vector<TokenId> end_tokens, Added added = {});

  // Null if the tokens are not restricted. `added`: of the request's tokenizer; null: it is the
  // base's.
  static std::shared_ptr<const TokenRules> of(const GenerationRequest& request,
                                              std::int32_t vocab_size,
                                              std::vector<TokenId> end_tokens,
                                              const AddedTokens* added = nullptr);

  bool has_constraint() const { return constraint_ != nullptr; }

 private:
  friend class TokenFilter;
  std::shared_ptr<const CompiledConstraint> constraint_;
  std::int32_t vocab_size_;
  std::vector<TokenId> end_tokens_;
  Added added_;
  std::vector<std::uint32_t> allowed_;  // a mask; empty: all allowed
  std::vector<std::vector<TokenId>> bad_words_;
};

// Not thread-safe, except that abandon() and is_abandoned() belong to another thread.
class TokenFilter {
 public:
  explicit TokenFilter(std::shared_ptr<const TokenRules> rules);
  ~TokenFilter();
  TokenFilter(const TokenFilter&) = delete;
  TokenFilter& operator=(const TokenFilter&) = delete;

  enum class Outlook {
    open,   // at least one token is allowed
    ended,  // the text is complete, and no token may follow, not even an end token, if there is one
    stuck,  // all tokens that the constraint allows are forbidden otherwise
  };
  // Overwrites `mask` with the tokens that may follow the generated tokens `output`. With
  // `hold_end` (min_tokens, ignore_eos) end tokens are excluded as long as another token is
  // allowed. Errors: the constraint does not allow `output`, or takes longer than a step can wait.
  Result<Outlook> next(std::span<const TokenId> output, bool hold_end,
                       std::span<std::uint32_t> mask);

  // Leaves the filter to a thread that is still computing a mask: next() may not be called again.
  // The constraint is refused from now on (CompiledConstraint::condemn).
  void abandon();
  bool is_abandoned() const { return abandoned_; }
  static Status too_costly();

  // With a constraint, an end token ends the text, whatever the request's options about end tokens
  // are.
  bool has_constraint() const { return rules_->has_constraint(); }
  std::size_t mask_words() const;  // of next()

 private:
  class Matcher;
  Outlook judge(bool hold_end, std::span<std::uint32_t> mask) const;
  void forbid_bad_words(std::span<const TokenId> output, std::span<std::uint32_t> mask) const;

  std::shared_ptr<const TokenRules> rules_;
  std::unique_ptr<Matcher> matcher_;  // null: there is no constraint
  bool abandoned_ = false;            // used by the thread that does not compute
};

// Checks that a newly compiled constraint can begin, and measures the masks for the first tokens of
// one of its texts.
Status try_out(const std::shared_ptr<const CompiledConstraint>& constraint,
               std::int32_t vocab_size);

}  // namespace tandem
