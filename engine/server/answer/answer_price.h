// An upper bound for the memory of an answer, computed before it runs. It is the size of the
// answer's JSON; all intermediate forms are smaller.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/server/messages/request/request_fields.h"

namespace tandem {

// The limit on unread deltas of all continuations of a streamed prompt
// (GenerationRequest::max_unread).
inline constexpr std::int32_t kMaxUnread = 64;

// Returns bytes. `echoed` has the prompts' texts with echo, else it is empty.
std::uint64_t price_of(const CompletionCall& call, std::span<const GenerationRequest> requests,
                       std::span<const std::string> echoed);

// The budget in bytes that all answers share. Thread-safe.
class AnswerBudget {
 public:
  explicit AnswerBudget(std::uint64_t bytes) : free_(bytes) {}
  // Reserves `bytes` until the last copy of the result is destroyed; null if too little is left.
  std::shared_ptr<void> take(std::uint64_t bytes);

 private:
  std::atomic<std::uint64_t> free_;
};

}  // namespace tandem
