#include "engine/batching/batch/prefix_reuse.h"

#include <algorithm>
#include <new>
#include <span>
#include <string>

namespace tandem {

void PrefixReuse::find(Sequence& sequence) const {
  if (cache_ == nullptr) return;
  const AdapterLease& adapter = sequence.context().adapter;
  // The last token is always computed, as its logits are needed. If log probabilities of the prompt
  // are wanted, all of its tokens are.
  std::span<const TokenId> reusable;
  if (!sequence.prompt_logprobs.are_wanted()) {
    reusable = sequence.tokens.known(sequence.tokens.size() - 1);
  }
  sequence.pages.find(*cache_, adapter == nullptr ? std::string() : adapter->contents().digest,
                      reusable);
}

void PrefixReuse::note_found(Sequence& sequence) {
  if (cache_ == nullptr || sequence.life.has_begun()) return;
  queries_ += static_cast<std::uint64_t>(sequence.tokens.prompt_len());
  const std::int64_t found = std::min(sequence.computed(), sequence.tokens.prompt_len());
  hits_ += static_cast<std::uint64_t>(found);
  RequestContext& context = sequence.context();
  if (sequence.index == context.lead) {
    context.stats.cached_tokens = static_cast<std::int32_t>(found);
  }
}

void PrefixReuse::offer(Sequence& sequence, std::int64_t computed) const {
  if (cache_ == nullptr) return;
  try {
    // Results of an adapter whose content is not proven are offered later, or never.
    if (gate_ != nullptr && gate_->is_in_doubt(sequence)) return;
    sequence.pages.offer(*cache_, sequence.tokens.known(computed));
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace tandem
