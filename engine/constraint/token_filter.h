// Which token may come next in one sequence: what its constraint, its allowed tokens and its bad
// words leave, as one mask for the sampler.
//
// A mask is as gpu/ops.h has it. The filter is told the tokens there are each time, and goes back
// by itself where they have become others (a step was void and is computed again), so that whoever
// sets a sequence back need not think of it. A preempted sequence keeps its tokens, and its filter
// with them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/token_id.h"
#include "engine/service/generation.h"
#include "gpu/ops.h"

namespace tandem {

class CompiledConstraint;

// What the continuations of a request share. Immutable.
class TokenRules {
 public:
  // Token ids in `sampling` are below `vocab_size`. `end_tokens` are those that the constraint was
  // compiled with.
  TokenRules(const SamplingParams& sampling, std::shared_ptr<const CompiledConstraint> constraint,
             std::int32_t vocab_size, std::vector<TokenId> end_tokens);

  // Null where nothing limits the tokens.
  static std::shared_ptr<const TokenRules> of(const GenerationRequest& request,
                                              std::int32_t vocab_size,
                                              std::vector<TokenId> end_tokens);

  bool has_constraint() const { return constraint_ != nullptr; }

 private:
  friend class TokenFilter;
  std::shared_ptr<const CompiledConstraint> constraint_;
  std::int32_t vocab_size_;
  std::vector<TokenId> end_tokens_;
  std::vector<std::uint32_t> allowed_;  // a mask; empty: all
  std::vector<std::vector<TokenId>> bad_words_;
};

// One thread at a time, but for abandon() and is_abandoned(), which are another one's.
class TokenFilter {
 public:
  explicit TokenFilter(std::shared_ptr<const TokenRules> rules);
  ~TokenFilter();
  TokenFilter(const TokenFilter&) = delete;
  TokenFilter& operator=(const TokenFilter&) = delete;

  enum class Outlook {
    open,   // some token may come
    ended,  // the text is whole, and nothing may come: not even an end token, if there is one
    stuck,  // none of the tokens that the constraint wants may come
  };
  // Overwrites `mask` with what may follow the generated tokens `output`. End tokens are left out
  // while something else is left and `hold_end` says so (min_tokens, ignore_eos). An error: the
  // constraint does not allow `output`, or costs more time than a step can wait.
  Result<Outlook> next(std::span<const TokenId> output, bool hold_end,
                       std::span<std::uint32_t> mask);

  // A thread that computes a mask is left alone with it: next() may not be called again. Its
  // constraint is refused from now on (CompiledConstraint::condemn).
  void abandon();
  bool is_abandoned() const { return abandoned_; }
  static Status too_costly();

  // An end token is the constraint's end, whatever else the request says of such.
  bool has_constraint() const { return rules_->has_constraint(); }

 private:
  class Matcher;
  Outlook judge(bool hold_end, std::span<std::uint32_t> mask) const;
  void forbid_bad_words(std::span<const TokenId> output, std::span<std::uint32_t> mask) const;

  std::shared_ptr<const TokenRules> rules_;
  std::unique_ptr<Matcher> matcher_;  // null: no constraint
  bool abandoned_ = false;            // of the thread that does not compute
};

// Whether a constraint just compiled can begin at all, and how long the masks of its first tokens
// take, along one of its texts.
Status try_out(const std::shared_ptr<const CompiledConstraint>& constraint,
               std::int32_t vocab_size);

}  // namespace tandem
