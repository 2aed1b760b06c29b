#include "engine/batching/batch/prefix_reuse.h"

#include <algorithm>
#include <new>
#include <span>
#include <string>
#include <utility>

namespace tandem {

void PrefixReuse::find(Sequence& sequence) const {
  if (cache_ == nullptr) return;
  const RequestContext& context = sequence.context();
  std::string digest;
  PrefixBranch branch;
  if (context.adapter != nullptr) digest = context.adapter->contents().digest;
  // Pages before the adapter acts are the base model's. The place is a part of the branch's digest,
  // as a page may hold tokens on both sides of it.
  if (context.adapter_from > 0) {
    branch.digest = fmt::format("{} from {}", std::exchange(digest, {}), context.adapter_from);
    branch.page = context.adapter_from / sequence.pages.table().page_tokens();
  }
  // The last token is always computed, as its logits are needed. If log probabilities of the prompt
  // are wanted, all of its tokens are.
  std::span<const TokenId> reusable;
  if (!sequence.prompt_logprobs.are_wanted()) {
    reusable = sequence.tokens.known(sequence.tokens.size() - 1);
  }
  sequence.pages.find(*cache_, std::move(digest), reusable, std::move(branch));
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
    if (gate_ != nullptr && gate_->is_in_doubt(sequence)) {
      computed = std::min(computed, sequence.context().adapter_from);
    }
    sequence.pages.offer(*cache_, sequence.tokens.known(computed));
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace tandem
