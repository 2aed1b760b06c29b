#include "engine/batching/line/sequence.h"

namespace tandem {
namespace {

std::span<const TokenId> tokens_before(const GenerationRequest& request, std::int32_t index) {
  if (request.before.empty()) return {};
  return request.before[static_cast<std::size_t>(index)].tokens;
}

}  // namespace

Sequence::Sequence(std::shared_ptr<RequestContext> context, std::int32_t index_in_request,
                   std::uint64_t arrival_number, PagePool& pool, OutputText text,
                   std::shared_ptr<TokenFilter> token_filter)
    : context_(std::move(context)),
      index(index_in_request),
      arrival(arrival_number),
      filter(std::move(token_filter)),
      pages(pool),
      tokens(context_->request.prompt, tokens_before(context_->request, index)),
      prompt_logprobs(*context_, index),
      output(std::move(text)),
      life(*context_, index, arrival) {}

void Sequence::drop_results() {
  tokens.drop_pending();
  results.drop();
  prompt_logprobs.drop_pending();
}

}  // namespace tandem
