// One continuation of one request, as used by the scheduler and the engine.
//
// The writers of each part:
//   its life     enter_line, admit, send_back: WaitingLine; begin: EngineLoop; end: Deliveries
//   place        WaitingLine
//   pages        the batch (engine/batching/batch), and enter_step
//   steps        enter_step: build_plan; leave_step: Deliveries; replay, restart: ContinuousBatcher
//   its tokens   enter_step adds places for them, learn (Deliveries) fills them in
//   ending       fill_masks
//   held         EngineLoop
//   output       Deliveries
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/adapters/adapter_store.h"
#include "engine/batching/line/lifecycle.h"
#include "engine/batching/line/place_in_line.h"
#include "engine/batching/line/request_context.h"
#include "engine/batching/line/sequence_pages.h"
#include "engine/constraint/token_filter.h"
#include "engine/continuation/output_text.h"
#include "engine/service/generation.h"
#include "gpu/ops.h"

namespace tandem {

// The samples of a step for a sequence while its adapter's folder was still being read
// (AdapterReading): held back until the adapter's contents are proven.
struct HeldSamples {
  std::vector<SampledToken> samples;  // log probabilities of the prompt, then the next token if any
  std::int64_t next_token = -1;       // its index in the sequence's tokens; -1: none
  AdapterProof proof;                 // of the adapter's copy that was used
};

// An ending of a sequence that its filter has found in place of a token.
struct FoundEnding {
  std::int64_t at = -1;  // the token's index in Sequence::tokens; -1: no ending
  FinishReason reason = FinishReason::none;
  Status why;
};

// The output that its reader has received.
class SequenceOutput {
 public:
  explicit SequenceOutput(OutputText text) : text_(std::move(text)) {}

  OutputText& text() { return text_; }
  // Called when a token has become known. Returns the seconds since the one before; no value: it is
  // the first.
  std::optional<double> token_came(TimePoint now) {
    const std::optional<TimePoint> before = std::exchange(last_token_, now);
    if (!before) return std::nullopt;
    return seconds_between(*before, now);
  }

 private:
  OutputText text_;
  std::optional<TimePoint> last_token_;
};

// Its adapter counts it from its construction on: as waiting, and as running once it has begun.
class Sequence {
 public:
  Sequence(std::shared_ptr<RequestContext> context, std::int32_t index_in_request,
           std::uint64_t arrival_number, PagePool& pool, OutputText text,
           std::shared_ptr<TokenFilter> token_filter = nullptr);
  // Makes sure that its reader gets an end, and that its adapter no longer counts it.
  ~Sequence();
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  const std::int32_t index;
  const std::uint64_t arrival;                // order of submission, kept through preemption
  const std::shared_ptr<TokenFilter> filter;  // null: any token may come
  PlaceInLine place;
  SequencePages pages;
  SequenceOutput output;

  RequestContext& context() { return *context_; }
  const RequestContext& context() const { return *context_; }

  // Its life (lifecycle.h). An event that cannot happen now is a bug, and aborts.
  void enter_line() { change(LifeEvent::enqueue); }
  void admit() { change(LifeEvent::admit); }
  void begin() { change(LifeEvent::begin); }
  void send_back() { change(LifeEvent::send_back); }
  void end() { change(LifeEvent::end); }
  Lifecycle state() const { return state_; }
  bool is_in_batch() const { return tandem::is_in_batch(state_); }
  bool has_begun() const { return tandem::has_begun(state_); }
  bool has_ended() const { return state_ == Lifecycle::ended; }

  // Prompt, then output. The last `pending` tokens are unknown until steps in flight have ended; -1
  // - (index of the sample in its step) holds their places.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  std::int64_t num_tokens() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::int32_t pending() const { return pending_; }
  std::int64_t prompt_len() const {
    return static_cast<std::int64_t>(context_->request.prompt.size());
  }
  std::int64_t output_len() const { return num_tokens() - prompt_len(); }
  std::int64_t known_len() const { return num_tokens() - pending_; }
  // The first `count` of its tokens, or fewer if some of them are unknown.
  std::span<const TokenId> known_tokens(std::int64_t count) const {
    return {tokens_.data(), static_cast<std::size_t>(std::min(count, known_len()))};
  }
  std::int64_t computed() const { return pages.computed(); }
  std::int64_t left_to_compute() const { return num_tokens() - computed(); }  // 1: it decodes
  // Sets its oldest unknown token, whose index the caller expects to be `at`.
  void learn(std::int64_t at, TokenId token);

  // Log probabilities of the prompt are computed for one continuation only, and once: they are sent
  // with its next token, and a preemption after that must not compute them again.
  bool scores_prompt() const { return index == context_->lead && !context_->prompt_told; }
  bool wants_prompt_logprobs() const {
    return scores_prompt() && context_->request.prompt_logprobs &&
           prompt_logprobs_asked_ < prompt_len() - 1;
  }
  // In steps enqueued so far.
  std::int64_t prompt_logprobs_asked() const { return prompt_logprobs_asked_; }

  // Called when a step with its next `count` tokens, `prompt_logprobs` of them scored, is enqueued.
  // If these are its last tokens, the next token is sample number `next_sample` of the step.
  void enter_step(std::int32_t count, std::int32_t prompt_logprobs, std::int32_t next_sample) {
    ++steps_in_flight_;
    pages.advance(count);
    prompt_logprobs_asked_ += prompt_logprobs;
    if (left_to_compute() > 0) return;
    tokens_.push_back(-1 - next_sample);
    ++pending_;
  }
  // Called when a step with rows of it has ended.
  void leave_step() { --steps_in_flight_; }
  bool is_in_flight() const { return steps_in_flight_ > 0; }
  // Drops its results, in flight or held, because workers did not answer or its adapter's contents
  // were wrong: it starts again from its known tokens. The caller handles its pages and the steps
  // that use them.
  void replay() {
    ++replays_;
    drop_results();
  }
  // Likewise, when no step is in flight.
  void restart() {
    steps_in_flight_ = 0;
    drop_results();
  }
  // How often it was replayed. After the first time it waits until its whole adapter has arrived.
  std::uint32_t replays() const { return replays_; }
  // True if results of a step that was enqueued after `replays` replays no longer count.
  bool is_stale(std::uint32_t replays) const { return has_ended() || replays != replays_; }

  // Samples of ended steps, oldest first; it is not scheduled meanwhile.
  const std::vector<HeldSamples>& held() const { return held_; }
  void hold(HeldSamples samples) { held_.push_back(std::move(samples)); }
  std::vector<HeldSamples> release_held() { return std::exchange(held_, {}); }
  const FoundEnding& ending() const { return ending_; }
  void find_ending(FoundEnding ending) { ending_ = std::move(ending); }

  // True if its last token is in flight, so that nothing of it is left to plan.
  bool awaits_last_token() const {
    return pending_ > 0 && output_len() >= std::max(context_->request.max_tokens, 1);
  }
  // True if its reader has enough to read.
  bool stands_aside() const { return context_->state->reader_is_behind(); }
  // True if it waits for its own results.
  bool is_paused() const { return awaits_last_token() || !held_.empty(); }
  // Counts it once more as stuck (ContinuousBatcher::stuck); returns how often it was.
  std::int32_t count_stuck() { return ++times_stuck_; }

 private:
  void change(LifeEvent event);
  std::atomic<std::int32_t>* count_of(Lifecycle state) const;
  void drop_results();

  const std::shared_ptr<RequestContext> context_;
  Lifecycle state_ = Lifecycle::arriving;
  std::vector<TokenId> tokens_;
  std::int32_t pending_ = 0;
  std::int64_t prompt_logprobs_asked_ = 0;
  std::int32_t steps_in_flight_ = 0;  // enqueued steps with rows of it
  std::uint32_t replays_ = 0;
  std::vector<HeldSamples> held_;
  FoundEnding ending_;
  std::int32_t times_stuck_ = 0;
};

}  // namespace tandem
