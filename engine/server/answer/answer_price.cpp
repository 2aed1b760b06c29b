#include "engine/server/answer/answer_price.h"

#include <algorithm>

#include "engine/server/tool_calls/tool_parser.h"

namespace tandem {
namespace {

// Sizes as JSON, with a reserve for long tokens.
constexpr std::uint64_t kChoiceBytes = 512;  // names, ids, usage
constexpr std::uint64_t kTokenBytes = 16;
constexpr std::uint64_t kChunkBytes = 512;       // the event around one token
constexpr std::uint64_t kLogprobBytes = 48;      // of one candidate, in completions
constexpr std::uint64_t kChatLogprobBytes = 96;  // the same with name, number and bytes, in chat
constexpr std::uint64_t kLogprobTokenBytes = 64;
constexpr std::uint64_t kNumberBytes = 16;     // of a number of an embedding
constexpr std::uint64_t kSaidBytes = 32;       // of a token generated before this request
constexpr std::uint64_t kToolCallBytes = 192;  // id and names of one tool call
// The reserve for a choice with tool calls: the calls, and the held-back text, which may count as
// text and as arguments.
constexpr std::uint64_t kToolsBytes = 2 * kMaxHeldBytes + kMaxToolCalls * kToolCallBytes;

}  // namespace

std::uint64_t price_of(const CompletionCall& call, std::span<const GenerationRequest> requests,
                       std::span<const std::string> echoed) {
  const std::uint64_t candidates =
      static_cast<std::uint64_t>(std::max(call.request.num_logprobs, 0)) + 1;
  const std::uint64_t scored =
      kLogprobTokenBytes + candidates * (call.chat ? kChatLogprobBytes : kLogprobBytes);
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const GenerationRequest& request = requests[i];
    const auto max_tokens = static_cast<std::uint64_t>(std::max(request.max_tokens, 1));
    // A stream keeps only what its client has not read.
    const std::uint64_t tokens =
        call.stream ? std::min<std::uint64_t>(max_tokens, kMaxUnread) : max_tokens;
    std::uint64_t choice = kChoiceBytes + tokens * kTokenBytes;
    if (!call.tool_use.tools.empty()) choice += kToolsBytes;
    if (call.stream) choice += tokens * kChunkBytes;
    if (request.num_logprobs >= 0) choice += tokens * scored;
    if (request.pooling != Pooling::none) choice += call.pooled_numbers * kNumberBytes;
    if (call.score.return_documents) choice += 2 * call.prompts[i].text->size();
    if (request.prompt_logprobs) choice += request.prompt.size() * scored;
    if (i < echoed.size()) choice += 2 * echoed[i].size();  // escaping may double the length
    for (const GeneratedBefore& before : request.before) {
      total += before.tokens.size() * kSaidBytes;
    }
    total += choice * static_cast<std::uint64_t>(std::max(request.n, 1));
  }
  return total;
}

std::shared_ptr<void> AnswerBudget::take(std::uint64_t bytes) {
  // Relaxed: the counter protects no other data.
  std::uint64_t free = free_.load(std::memory_order_relaxed);
  do {
    if (bytes > free) return nullptr;
  } while (!free_.compare_exchange_weak(free, free - bytes, std::memory_order_relaxed));
  return {this, [bytes](AnswerBudget* budget) {
            budget->free_.fetch_add(bytes, std::memory_order_relaxed);
          }};
}

}  // namespace tandem
