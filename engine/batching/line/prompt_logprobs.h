// The log probabilities of a request's prompt. They are computed for one continuation only, and
// once: they are sent with its next token, and a preemption after that must not compute them again.
#pragma once

#include <cstdint>

#include "engine/batching/line/request_context.h"

namespace tandem {

// As one continuation sees them.
class PromptLogprobs {
 public:
  // `context` outlives it.
  PromptLogprobs(const RequestContext& context, std::int32_t index)
      : context_(&context), index_(index) {}

  // True if they are sent with this continuation's next token, if anybody asks for them.
  bool are_due() const { return index_ == context_->lead && !context_->prompt_told; }
  // True if steps have yet to compute some.
  bool are_wanted() const {
    const GenerationRequest& request = context_->request;
    return are_due() && (request.prompt_logprobs || request.pooling == Pooling::mean) &&
           asked_ < static_cast<std::int64_t>(request.prompt.size()) - 1;
  }
  // The number that steps enqueued so far compute.
  std::int64_t asked() const { return asked_; }
  void ask(std::int64_t count) { asked_ += count; }
  // The steps in flight do not count.
  void drop_pending() {
    if (are_due()) asked_ = context_->scored;
  }

 private:
  const RequestContext* context_;
  std::int32_t index_;
  std::int64_t asked_ = 0;
};

}  // namespace tandem
