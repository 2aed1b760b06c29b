// From sampled tokens to what readers get: what a token means for its sequence (text, stops, its
// end), and the way out.
//
// What became known is kept until send(), after the statistics are published: whoever has read the
// last of a request finds it gone from the statistics, and readers wake while the next step already
// runs. Where there is no memory to say something, that sequence alone ends, and its reader is told
// so: nothing here throws. The engine thread alone uses it.
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
  // All outlive it. `max_num_seqs`: with rows in one step. `cold_starts` is told of first tokens.
  Deliveries(ContinuousBatcher& scheduler, std::int32_t max_num_seqs,
             std::span<const TokenId> eos_token_ids, ColdStartLog& cold_starts, const Clock& clock);

  // What a step has sampled for a sequence: log probabilities of its prompt, then, if `next_token`
  // is not -1, the token that has this index in it. False: that was its last, and it may be gone.
  bool take(Sequence& sequence, std::span<const SampledToken> samples,
            std::int64_t next_token) noexcept;
  // Ends a sequence without a token.
  void end(Sequence& sequence, FinishReason reason, const Status& why) noexcept;
  // Ends one that has not begun, as its first token would come too late; it may come again after
  // so many seconds.
  void give_up(Sequence& sequence, std::int32_t retry_after_s) noexcept;
  // Ends it for want of memory.
  void lose(Sequence& sequence) noexcept;
  // A step with rows of it is over. False: the sequence had ended before, and may be gone.
  bool left_step(Sequence& sequence) noexcept;
  // No step is under way any more.
  void left_all_steps() noexcept { ended_.clear(); }
  void send() noexcept;

  std::uint64_t num_tokens() const { return num_tokens_; }  // taken
  const CountedValues<kInterTokenBounds.size()>& inter_token() const { return inter_token_; }

 private:
  bool try_to_take(Sequence& sequence, std::span<const SampledToken> samples,
                   std::int64_t next_token);
  bool accept_token(Sequence& sequence, std::int64_t index, const SampledToken& sampled);
  void finish(Sequence& sequence, OutputDelta delta) noexcept;
  void remove(Sequence& sequence) noexcept;

  struct News {
    std::shared_ptr<GenerationState> state;
    OutputDelta delta;
    GenerationStats stats;
  };

  ContinuousBatcher* scheduler_;
  std::span<const TokenId> eos_token_ids_;
  ColdStartLog* cold_starts_;
  const Clock* clock_;
  std::vector<News> outbox_;
  // Out of the scheduler, but with rows in a step under way: their adapters stay until it is over.
  // Has room for all that may be.
  std::vector<std::unique_ptr<Sequence>> ended_;
  std::uint64_t num_tokens_ = 0;
  CountedValues<kInterTokenBounds.size()> inter_token_;  // seconds
};

}  // namespace tandem
