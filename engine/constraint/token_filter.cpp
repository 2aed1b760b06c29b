#include "engine/constraint/token_filter.h"

#include <xgrammar/matcher.h>

#include <algorithm>
#include <bit>
#include <ctime>
#include <exception>
#include <utility>

#include "base/check.h"
#include "engine/constraint/compiled_constraint.h"

namespace tandem {
namespace {

// All sequences of a step wait for a mask. Masks take some 10 us; those of a hostile pattern have
// taken seconds.
constexpr double kLongestMaskS = 0.25;

// Processor time, so that a busy machine does not make a constraint look slow.
double thread_cpu_s() {
  timespec now{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void forbid_token(std::span<std::uint32_t> mask, TokenId token) {
  mask[static_cast<std::size_t>(token) / 32] &= ~(1U << (static_cast<std::uint32_t>(token) % 32));
}

void allow_token(std::span<std::uint32_t> mask, TokenId token) {
  mask[static_cast<std::size_t>(token) / 32] |= 1U << (static_cast<std::uint32_t>(token) % 32);
}

bool is_allowed(std::span<const std::uint32_t> mask, TokenId token) {
  return (mask[static_cast<std::size_t>(token) / 32] >> (static_cast<std::uint32_t>(token) % 32) &
          1U) != 0;
}

bool allows_any(std::span<const std::uint32_t> mask) {
  return std::any_of(mask.begin(), mask.end(), [](std::uint32_t word) { return word != 0; });
}

void allow_all(std::span<std::uint32_t> mask, std::int32_t vocab_size) {
  std::fill(mask.begin(), mask.end(), ~0U);
  if (vocab_size % 32 != 0) mask.back() = (1U << (static_cast<std::uint32_t>(vocab_size) % 32)) - 1;
}

}  // namespace

TokenRules::TokenRules(const SamplingParams& sampling,
                       std::shared_ptr<const CompiledConstraint> constraint,
                       std::int32_t vocab_size, std::vector<TokenId> end_tokens, Added added)
    : constraint_(std::move(constraint)),
      vocab_size_(vocab_size),
      end_tokens_(std::move(end_tokens)),
      added_(std::move(added)),
      bad_words_(sampling.bad_words) {
  std::erase_if(bad_words_, [](const auto& word) { return word.empty(); });
  if (sampling.allowed_token_ids.empty()) return;
  allowed_.resize(static_cast<std::size_t>(mask_words(vocab_size)), 0);
  for (const TokenId token : sampling.allowed_token_ids) {
    TANDEM_CHECK(token >= 0 && token < vocab_size, "token {}", token);
    allow_token(allowed_, token);
  }
}

std::shared_ptr<const TokenRules> TokenRules::of(const GenerationRequest& request,
                                                 std::int32_t vocab_size,
                                                 std::vector<TokenId> end_tokens,
                                                 const AddedTokens* added) {
  const SamplingParams& sampling = request.sampling;
  if (request.compiled == nullptr && sampling.allowed_token_ids.empty() &&
      sampling.bad_words.empty()) {
    return nullptr;
  }
  Added texts;
  if (added != nullptr && request.compiled != nullptr) {
    texts.insert(added->texts.begin(), added->texts.end());
    const bool is_tag = request.constraint.kind == TextConstraint::Kind::structural_tag;
    for (const auto& [id, name] : added->special) {
      if (is_tag && request.constraint.text.find(name) != std::string::npos) texts[id] = name;
    }
    std::erase_if(texts, [&](const auto& each) { return each.first >= vocab_size; });
  }
  return std::make_shared<const TokenRules>(sampling, request.compiled, vocab_size,
                                            std::move(end_tokens), std::move(texts));
}

// XGrammar's matcher, moved to the tokens that are passed in.
class TokenFilter::Matcher {
 public:
  explicit Matcher(std::shared_ptr<const TokenRules> rules)
      : rules_(std::move(rules)),
        vocab_size_(grammar().GetTokenizerInfo().GetVocabSize()),
        ends_(grammar().GetTokenizerInfo().GetStopTokenIds()),
        added_(rules_->added_),
        matcher_(grammar()) {
    for (const TokenId end : rules_->end_tokens_) {
      added_.erase(end);  // whatever text the adapter's tokenizer has for it
      if (std::ranges::find(ends_, end) == ends_.end()) own_ends_.push_back(end);
    }
  }

  // invalid_argument: the constraint does not allow `output`.
  Status go_to(std::span<const TokenId> output) {
    const auto [mine, theirs] =
        std::mismatch(accepted_.begin(), accepted_.end(), output.begin(), output.end());
    if (mine != accepted_.end()) {
      matcher_.Rollback(static_cast<int>(accepted_.end() - mine));
      accepted_.erase(mine, accepted_.end());
    }
    for (const TokenId token : output.subspan(accepted_.size())) {
      if (matcher_.IsTerminated() || !accept(token)) {
        return error(StatusCode::internal, "the constraint does not allow token {} after {} tokens",
                     token, accepted_.size());
      }
      accepted_.push_back(token);
    }
    return {};
  }

  // Returns false if the end token has been accepted, and nothing may follow.
  bool fill(std::span<std::uint32_t> mask) {
    if (matcher_.IsTerminated()) return false;
    std::int64_t words[] = {tandem::mask_words(vocab_size_)};
    std::ranges::fill(mask.subspan(static_cast<std::size_t>(words[0])), 0U);
    DLTensor tensor{};
    tensor.data = mask.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = xgrammar::GetBitmaskDLType();
    tensor.shape = words;
    (void)matcher_.FillNextTokenBitmask(&tensor);
    if (vocab_size_ % 32 != 0) {
      mask[static_cast<std::size_t>(words[0]) - 1] &=
          (1U << (static_cast<std::uint32_t>(vocab_size_) % 32)) - 1;
    }
    for (const TokenId end : own_ends_) {
      forbid_token(mask, end);
      if (!ends_.empty() && is_allowed(mask, ends_.front())) allow_token(mask, end);
    }
    for (const auto& [token, text] : added_) {
      forbid_token(mask, token);
      if (text.empty() || !matcher_.AcceptString(text)) continue;
      matcher_.Rollback(1);  // the whole text is one step
      allow_token(mask, token);
    }
    return true;
  }

  bool is_whole() const { return matcher_.IsTerminated() || matcher_.IsCompleted(); }
  const CompiledConstraint& constraint() const { return *rules_->constraint_; }

 private:
  const xgrammar::CompiledGrammar& grammar() const { return constraint().grammar(); }
  bool accept(TokenId token) {
    if (const auto found = added_.find(token); found != added_.end()) {
      return matcher_.AcceptString(found->second);
    }
    if (std::ranges::find(own_ends_, token) != own_ends_.end()) {
      return !ends_.empty() && matcher_.AcceptToken(ends_.front());
    }
    return token < vocab_size_ && matcher_.AcceptToken(token);
  }

  std::shared_ptr<const TokenRules> rules_;
  std::int32_t vocab_size_;  // for which the constraint was compiled, with ends_
  std::vector<TokenId> ends_;
  std::vector<TokenId> own_ends_;  // other end tokens
  TokenRules::Added added_;
  xgrammar::GrammarMatcher matcher_;
  std::vector<TokenId> accepted_;
};

TokenFilter::TokenFilter(std::shared_ptr<const TokenRules> rules) : rules_(std::move(rules)) {
  if (rules_->has_constraint()) matcher_ = std::make_unique<Matcher>(rules_);
}

TokenFilter::~TokenFilter() = default;

std::size_t TokenFilter::mask_words() const {
  return static_cast<std::size_t>(tandem::mask_words(rules_->vocab_size_));
}

void TokenFilter::abandon() {
  abandoned_ = true;
  if (rules_->has_constraint()) rules_->constraint_->condemn();
}

Status TokenFilter::too_costly() {
  return invalid("the constraint is too costly: it allows too many tokens at each step");
}

Result<TokenFilter::Outlook> TokenFilter::next(std::span<const TokenId> output, bool hold_end,
                                               std::span<std::uint32_t> mask) {
  TANDEM_CHECK(mask.size() == mask_words(), "{} words", mask.size());
  if (matcher_ != nullptr) {
    const double begin_s = thread_cpu_s();
    try {
      TANDEM_TRY(matcher_->go_to(output));
      if (!matcher_->fill(mask)) return Outlook::ended;
    } catch (const std::exception& failure) {
      return error(StatusCode::internal, "the constraint failed: {}", failure.what());
    }
    if (thread_cpu_s() - begin_s > kLongestMaskS) {
      matcher_->constraint().condemn();
      return too_costly();
    }
  } else {
    allow_all(mask, rules_->vocab_size_);
  }
  if (!rules_->allowed_.empty()) {
    for (std::size_t i = 0; i < mask.size(); ++i) mask[i] &= rules_->allowed_[i];
  }
  forbid_bad_words(output, mask);
  return judge(hold_end, mask);
}

// Forbids the last token of a bad word if the last generated tokens are the ones before it.
void TokenFilter::forbid_bad_words(std::span<const TokenId> output,
                                   std::span<std::uint32_t> mask) const {
  for (const std::vector<TokenId>& word : rules_->bad_words_) {
    const std::span<const TokenId> before(word.data(), word.size() - 1);
    if (before.size() > output.size()) continue;
    if (std::equal(before.begin(), before.end(),
                   output.end() - static_cast<std::ptrdiff_t>(before.size()))) {
      forbid_token(mask, word.back());
    }
  }
}

TokenFilter::Outlook TokenFilter::judge(bool hold_end, std::span<std::uint32_t> mask) const {
  if (matcher_ != nullptr && hold_end) {
    std::vector<TokenId> ends;
    for (const TokenId token : rules_->end_tokens_) {
      if (is_allowed(mask, token)) ends.push_back(token);
    }
    for (const TokenId token : ends) forbid_token(mask, token);
    if (!allows_any(mask)) {
      for (const TokenId token : ends) allow_token(mask, token);
    }
  }
  if (allows_any(mask)) return Outlook::open;
  return matcher_ != nullptr && matcher_->is_whole() ? Outlook::ended : Outlook::stuck;
}

Status try_out(const std::shared_ptr<const CompiledConstraint>& constraint,
               std::int32_t vocab_size) {
  constexpr int kTokens = 12;
  TokenFilter filter(std::make_shared<const TokenRules>(SamplingParams{}, constraint, vocab_size,
                                                        std::vector<TokenId>{}));
  std::vector<std::uint32_t> mask(static_cast<std::size_t>(mask_words(vocab_size)));
  std::vector<TokenId> output;
  for (int i = 0; i < kTokens; ++i) {
    TANDEM_ASSIGN(const TokenFilter::Outlook outlook, filter.next(output, false, mask));
    if (outlook == TokenFilter::Outlook::stuck) {
      return i == 0 ? invalid("it allows no text at all")
                    : invalid("it leads to a point where no token is allowed");
    }
    if (outlook == TokenFilter::Outlook::ended) return {};
    // Samples words across the whole vocabulary, deterministically.
    const std::size_t words = mask.size();
    std::size_t word = static_cast<std::size_t>(i) * 7919 % words;
    while (mask[word] == 0) word = (word + 1) % words;
    output.push_back(static_cast<TokenId>(word * 32) + std::countr_zero(mask[word]));
  }
  return {};
}

}  // namespace tandem
