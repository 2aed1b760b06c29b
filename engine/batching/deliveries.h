// Turns sampled tokens into the output for readers: derives text, stops and the end of a sequence
// from each token, and sends the result.
//
// Results are kept until send(), which is called after the statistics are published: a client that
// has read the end of a request no longer finds it in the statistics, and readers wake while the
// next step runs already. If memory runs out for a result, only that sequence ends, and its reader
// gets an error: nothing here throws. Only the engine thread may use it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/adapters/cold_start_log.h"
#include "engine/batching/batch/continuous_batcher.h"
#include "engine/batching/line/generation_state.h"
#include "engine/batching/line/sequence.h"
#include "engine/service/counted_values.h"
#include "gpu/ops.h"

namespace tandem {

class Deliveries {
 public:
  // All arguments outlive it. `max_num_seqs`: with rows in one step. `cold_starts` records first
  // tokens.
  Deliveries(ContinuousBatcher& scheduler, std::int32_t max_num_seqs, ColdStartLog& cold_starts,
             const Clock& clock);

  // Takes the samples of a step for a sequence: log probabilities of its prompt, then the token
  // with index `next_token`, unless that is -1. Returns false if that token was its last; the
  // sequence may be destroyed then.
  bool take(Sequence& sequence, std::span<const SampledToken> samples, const StateSum& states,
            std::int64_t next_token) noexcept;
  // Ends a sequence without a token.
  void end(Sequence& sequence, FinishReason reason, const Status& why) noexcept;
  // Ends a sequence that has not begun, as its first token would be too late; the client may retry
  // after `retry_after_s` seconds.
  void give_up(Sequence& sequence, std::int32_t retry_after_s) noexcept;
  // Ends a sequence because memory ran out.
  void lose(Sequence& sequence) noexcept;
  // Called when a step with rows of it has ended. Returns false if the sequence had ended before;
  // it may be destroyed then.
  bool left_step(Sequence& sequence) noexcept;
  // Called when no step is in flight any more.
  void left_all_steps() noexcept { ended_.clear(); }
  void send() noexcept;

  std::uint64_t num_tokens() const { return num_tokens_; }  // taken
  const CountedValues<kInterTokenBounds.size()>& inter_token() const { return inter_token_; }

 private:
  bool try_to_take(Sequence& sequence, std::span<const SampledToken> samples,
                   const StateSum& states, std::int64_t next_token);
  bool accept_token(Sequence& sequence, std::int64_t index, const SampledToken& sampled);
  void finish(Sequence& sequence, OutputDelta delta) noexcept;
  void remove(Sequence& sequence) noexcept;

  struct News {
    std::shared_ptr<GenerationState> state;
    OutputDelta delta;
    GenerationStats stats;
  };

  ContinuousBatcher* scheduler_;
  ColdStartLog* cold_starts_;
  const Clock* clock_;
  std::vector<News> outbox_;
  // Sequences that have left the scheduler and have rows in a step in flight: their adapters stay
  // until it has ended. Has capacity for all possible ones.
  std::vector<std::unique_ptr<Sequence>> ended_;
  std::uint64_t num_tokens_ = 0;
  CountedValues<kInterTokenBounds.size()> inter_token_;  // seconds
};

}  // namespace tandem
