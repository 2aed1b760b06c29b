#include "engine/constraint/added_tokens.h"

#include <algorithm>
#include <cstddef>

namespace tandem {

std::shared_ptr<const AddedTokens> AddedTokensOfAdapters::find(
    const std::shared_ptr<const Tokenizer>& own) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(own.get());
  if (found != known_.end() && found->second.own.lock() == own) return found->second.added;
  std::erase_if(known_, [](const auto& known) { return known.second.own.expired(); });
  return (known_[own.get()] = {own, compare(*own)}).added;
}

std::shared_ptr<const AddedTokens> AddedTokensOfAdapters::compare(const Tokenizer& own) const {
  auto added = std::make_shared<AddedTokens>();
  const std::size_t most = std::max(own.vocab_size(), base_->vocab_size());
  for (std::size_t i = 0; i < most; ++i) {
    const auto id = static_cast<TokenId>(i);
    const bool is_of_base = i < base_->vocab_size() && !base_->id_to_token(id).empty();
    const bool is_of_own = i < own.vocab_size() && !own.id_to_token(id).empty();
    const bool same = is_of_base && is_of_own && base_->id_to_token(id) == own.id_to_token(id) &&
                      base_->is_special(id) == own.is_special(id);
    if (same || (!is_of_base && !is_of_own)) continue;
    const bool is_text = is_of_own && !own.is_special(id);
    if (is_text && is_of_base && !base_->is_special(id)) return nullptr;
    added->texts.emplace_back(id, is_text ? own.token_bytes(id) : "");
    if (is_of_own && !is_text) added->special.emplace_back(id, own.id_to_token(id));
  }
  return added;
}

}  // namespace tandem
