// What an answer may take in memory, known before anything of it runs: the bytes of its JSON at
// most, which all that leads there stays below.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/server/messages/request_fields.h"

namespace tandem {

// Deltas of a streamed prompt's continuations that may wait for a client that does not read
// (GenerationRequest::max_unread).
inline constexpr std::int32_t kMaxUnread = 64;

// Bytes. `echoed`: the prompts' texts, with echo; else empty.
std::uint64_t price_of(const CompletionCall& call, std::span<const GenerationRequest> requests,
                       std::span<const std::string> echoed);

// The bytes that all answers at once may take. Thread-safe.
class AnswerBudget {
 public:
  explicit AnswerBudget(std::uint64_t bytes) : free_(bytes) {}
  // Given back when the last copy of what is returned goes; null: there is not so much now.
  std::shared_ptr<void> take(std::uint64_t bytes);

 private:
  std::atomic<std::uint64_t> free_;
};

}  // namespace tandem
