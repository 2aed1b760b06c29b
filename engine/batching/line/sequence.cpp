#include "engine/batching/line/sequence.h"

#include "base/check.h"

namespace tandem {

Sequence::Sequence(std::shared_ptr<RequestContext> context, std::int32_t index_in_request,
                   std::uint64_t arrival_number, PagePool& pool, OutputText text,
                   std::shared_ptr<TokenFilter> token_filter)
    : index(index_in_request),
      arrival(arrival_number),
      filter(std::move(token_filter)),
      pages(pool),
      output(std::move(text)),
      context_(std::move(context)),
      tokens_(context_->request.prompt) {
  if (!context_->request.before.empty()) {
    const auto& before = context_->request.before[static_cast<std::size_t>(index)].tokens;
    tokens_.insert(tokens_.end(), before.begin(), before.end());
  }
  if (auto* count = count_of(state_)) count->fetch_add(1, std::memory_order_relaxed);
}

Sequence::~Sequence() {
  if (has_ended()) return;
  if (auto* count = count_of(state_)) count->fetch_sub(1, std::memory_order_relaxed);
  context_->state->lose(index);
}

void Sequence::change(LifeEvent event) {
  const std::optional<Lifecycle> after = next(state_, event);
  TANDEM_CHECK(after.has_value(), "sequence {}: {} while it is {}", arrival, to_string(event),
               to_string(state_));
  std::atomic<std::int32_t>* const old_count = count_of(state_);
  std::atomic<std::int32_t>* const new_count = count_of(*after);
  state_ = *after;
  if (old_count == new_count) return;
  if (old_count != nullptr) old_count->fetch_sub(1, std::memory_order_relaxed);
  if (new_count != nullptr) new_count->fetch_add(1, std::memory_order_relaxed);
}

// Its adapter's count of the sequences in this state; null: there is none.
std::atomic<std::int32_t>* Sequence::count_of(Lifecycle state) const {
  ServedAdapter* const adapter = context_->adapter.get();
  if (adapter == nullptr || state == Lifecycle::ended) return nullptr;
  return tandem::has_begun(state) ? &adapter->running : &adapter->waiting;
}

void Sequence::learn(std::int64_t at, TokenId token) {
  TANDEM_CHECK(at == known_len(), "token {} after {}", at, known_len());
  tokens_[static_cast<std::size_t>(at)] = token;
  --pending_;
}

void Sequence::drop_results() {
  tokens_.resize(static_cast<std::size_t>(known_len()));
  pending_ = 0;
  held_.clear();
  ending_ = {};
  if (scores_prompt()) {
    prompt_logprobs_asked_ = static_cast<std::int64_t>(context_->prompt_logprobs.size());
  }
}

}  // namespace tandem
