#include "engine/continuation/resumption.h"

#include <algorithm>
#include <utility>

#include "engine/continuation/token_outcome.h"
#include "gpu/ops.h"

namespace tandem {
namespace {

// Moves the matcher over the tokens here and not on the engine's thread, where every sequence of
// the step would wait for it. It moves in strides, because a single mask that takes too long
// condemns its constraint.
Status bring_forward(TokenFilter& filter, const GenerationRequest& request,
                     const std::vector<TokenId>& tokens, std::int64_t vocab_size,
                     std::int32_t index) {
  std::vector<std::uint32_t> mask(static_cast<std::size_t>(mask_words(vocab_size)));
  const bool hold_end =
      request.ignore_eos || static_cast<std::int64_t>(tokens.size()) < request.min_tokens;
  constexpr std::size_t kStride = 256;
  for (std::size_t end = 0; end < tokens.size();) {
    end = std::min(end + kStride, tokens.size());
    const auto outlook = filter.next(std::span(tokens).first(end), hold_end, mask);
    if (outlook) continue;
    return invalid("continuation {}: its tokens are not what the request's constraint allows: {}",
                   index, outlook.status().message());
  }
  return {};
}

// Replays the tokens and collects their text.
Status say_again(const GenerationRequest& request, std::span<const TokenId> eos_token_ids,
                 const std::vector<TokenId>& tokens, Continuation& to, OutputDelta& said) {
  const bool constrained = to.filter != nullptr && to.filter->has_constraint();
  said.tokens = tokens;
  said.text_ends.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    TokenOutcome outcome = take_token(request, eos_token_ids, constrained,
                                      static_cast<std::int64_t>(i) + 1, tokens[i], to.text);
    said.text += outcome.text;
    said.text_ends.push_back(static_cast<std::uint32_t>(said.text.size()));
    if (outcome.finish == FinishReason::none) continue;
    if (i + 1 < tokens.size()) {
      return invalid("continuation {} ends with its token {} of {}: nothing follows that",
                     said.index, i + 1, tokens.size());
    }
    said.finish = outcome.finish;
    said.stop_reason = std::move(outcome.stop_reason);
    if (outcome.is_end_token) said.end_token = tokens[i];
  }
  return {};
}

}  // namespace

Status check_before(const GenerationRequest& request, std::int64_t vocab_size) {
  if (request.before.empty()) return {};
  if (request.before.size() != static_cast<std::size_t>(request.n)) {
    return invalid("{} continuations have generated something before, but the request has {}",
                   request.before.size(), request.n);
  }
  for (std::size_t i = 0; i < request.before.size(); ++i) {
    const std::vector<TokenId>& tokens = request.before[i].tokens;
    if (tokens.size() > static_cast<std::size_t>(std::max(request.max_tokens, 0))) {
      return invalid("continuation {} has {} tokens already, and {} are the most that it may have",
                     i, tokens.size(), request.max_tokens);
    }
    for (const TokenId token : tokens) {
      if (token < 0 || token >= vocab_size) {
        return invalid("continuation {}: token id {} is not in 0 .. {}", i, token, vocab_size - 1);
      }
    }
  }
  return {};
}

Result<Continuations> make_continuations(const GenerationRequest& request,
                                         const Tokenizer& tokenizer,
                                         std::span<const TokenId> eos_token_ids,
                                         const std::shared_ptr<const TokenRules>& rules,
                                         std::int64_t vocab_size) {
  Continuations made;
  made.all.reserve(static_cast<std::size_t>(request.n));
  for (std::int32_t i = 0; i < request.n; ++i) {
    Continuation& each = made.all.emplace_back(
        Continuation{OutputText(tokenizer, request.skip_special_tokens, request.stop,
                                request.include_stop, request.kept_special_tokens, request.prompt),
                     rules == nullptr ? nullptr : std::make_unique<TokenFilter>(rules), false});
    if (request.before.empty()) continue;
    const GeneratedBefore& before = request.before[static_cast<std::size_t>(i)];
    made.num_tokens += static_cast<std::int64_t>(before.tokens.size());
    OutputDelta said;
    said.index = i;
    said.is_before = true;
    if (before.is_over) {
      said.finish = FinishReason::stop;
    } else {
      if (before.tokens.empty()) continue;
      TANDEM_TRY(say_again(request, eos_token_ids, before.tokens, each, said));
      if (said.finish == FinishReason::none && each.filter != nullptr) {
        TANDEM_TRY(bring_forward(*each.filter, request, before.tokens, vocab_size, i));
      }
    }
    each.is_over = said.finish != FinishReason::none;
    made.said.push_back(std::move(said));
  }
  return made;
}

}  // namespace tandem
