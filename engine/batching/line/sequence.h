// One continuation of one request, as used by the scheduler and the engine: its parts, and what
// concerns several of them.
//
// The writers of each part:
//   life             enter_line, admit, send_back: WaitingLine; begin: EngineLoop; end: Deliveries
//   place            WaitingLine
//   pages            the batch (engine/batching/batch), and enter_step
//   tokens           enter_step adds places for them, learn (Deliveries) fills them in
//   prompt_logprobs  enter_step
//   results          held samples: EngineLoop; ending: fill_masks
//   output           Deliveries
//   steps            enter_step: build_plan; leave_step: Deliveries; replay, restart:
//                    ContinuousBatcher
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "engine/batching/line/place_in_line.h"
#include "engine/batching/line/prompt_logprobs.h"
#include "engine/batching/line/request_context.h"
#include "engine/batching/line/sequence_life.h"
#include "engine/batching/line/sequence_pages.h"
#include "engine/batching/line/sequence_results.h"
#include "engine/batching/line/sequence_tokens.h"
#include "engine/constraint/token_filter.h"

namespace tandem {

class Sequence {
  const std::shared_ptr<RequestContext> context_;  // first, as parts refer to it

 public:
  Sequence(std::shared_ptr<RequestContext> context, std::int32_t index_in_request,
           std::uint64_t arrival_number, PagePool& pool, OutputText text,
           std::shared_ptr<TokenFilter> token_filter = nullptr);
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  const std::int32_t index;
  const std::uint64_t arrival;                // order of submission, kept through preemption
  const std::shared_ptr<TokenFilter> filter;  // null: any token may come
  PlaceInLine place;
  SequencePages pages;
  SequenceTokens tokens;
  PromptLogprobs prompt_logprobs;
  SequenceResults results;
  SequenceOutput output;
  SequenceLife life;  // last: its end is told before its pages are free

  RequestContext& context() { return *context_; }
  const RequestContext& context() const { return *context_; }

  std::int64_t computed() const { return pages.computed(); }
  std::int64_t left_to_compute() const { return tokens.size() - computed(); }  // 1: it decodes
  // The number of its next tokens before the first one that its adapter acts on.
  std::int64_t unadapted_left() const {
    return std::max<std::int64_t>(context_->adapter_from - computed(), 0);
  }

  // Called when a step with its next `count` tokens, `num_scored` of them of the prompt with log
  // probabilities, is enqueued. If these are its last tokens, the next token is sample number
  // `next_sample` of the step.
  void enter_step(std::int32_t count, std::int32_t num_scored, std::int32_t next_sample) {
    ++steps_in_flight_;
    pages.advance(count);
    prompt_logprobs.ask(num_scored);
    if (left_to_compute() == 0) tokens.expect(next_sample);
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
  bool is_stale(std::uint32_t replays) const { return life.has_ended() || replays != replays_; }

  // True if its last token is in flight, so that nothing of it is left to plan.
  bool awaits_last_token() const {
    return tokens.pending() > 0 && tokens.output_len() >= std::max(context_->request.max_tokens, 1);
  }
  // True if it waits for its own results.
  bool is_paused() const { return awaits_last_token() || !results.held().empty(); }
  // True if its reader has enough to read.
  bool stands_aside() const { return context_->state->reader_is_behind(); }
  // Counts it once more as stuck (ContinuousBatcher::stuck); returns how often it was.
  std::int32_t count_stuck() { return ++times_stuck_; }

 private:
  void drop_results();

  std::int32_t steps_in_flight_ = 0;  // enqueued steps with rows of it
  std::uint32_t replays_ = 0;
  std::int32_t times_stuck_ = 0;
};

}  // namespace tandem
