// One continuation of one request, as used by the scheduler and the engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/adapters/adapter_store.h"
#include "engine/batching/line/generation_state.h"
#include "engine/constraint/token_filter.h"
#include "engine/continuation/output_text.h"
#include "engine/memory/block_table.h"
#include "engine/memory/prefix_cache.h"
#include "engine/service/generation.h"
#include "gpu/ops.h"
#include "scheduler/planning/queue/fair_share.h"
#include "scheduler/planning/queue/queue_order.h"

namespace tandem {

// The data that the n continuations of a request share. Only the engine thread writes it after
// submit.
struct RequestContext {
  GenerationRequest request;
  AdapterLease adapter;               // null: base model
  std::uint64_t readings_before = 0;  // readings of its folder that had ended (AdapterHome)
  std::shared_ptr<GenerationState> state;
  std::uint64_t seed = 0;
  GenerationStats stats;
  TimePoint submitted;
  std::optional<TimePoint> first_scheduled;
  bool began_warm = false;  // its adapter was on the device at that time
  std::optional<TimePoint> first_token;
  std::vector<TokenLogprob> prompt_logprobs;  // of prompt tokens 1, 2, ... as they are computed
  bool prompt_told = false;                   // they were sent with a token
  std::int32_t lead = 0;                      // the first continuation that had not ended before
};

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

struct Sequence {
  Sequence(std::shared_ptr<RequestContext> ctx, std::int32_t index_in_request,
           std::uint64_t arrival_number, PagePool& pool, OutputText output)
      : context(std::move(ctx)),
        index(index_in_request),
        arrival(arrival_number),
        tokens(context->request.prompt),
        table(pool),
        text(std::move(output)) {
    if (context->request.before.empty()) return;
    const auto& before = context->request.before[static_cast<std::size_t>(index)].tokens;
    tokens.insert(tokens.end(), before.begin(), before.end());
  }

  // Makes sure that its reader gets an end, and that its adapter no longer counts it.
  ~Sequence() {
    leave_adapter();
    if (!told) context->state->lose(index);
  }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  std::shared_ptr<RequestContext> context;
  std::int32_t index;
  std::uint64_t arrival;  // order of submission, kept through preemption
  // For the waiting line (waiting_line.h): the data for its order, its tenant's count of it, and
  // its place in it by the last arrange(); 0: only priority and arrival decide.
  QueueEntry entry;
  TenantStay stay;
  std::uint32_t turn = 0;
  // Prompt, then output. The last `pending` tokens are unknown until steps in flight have ended; -1
  // - (index of the sample in its step) holds their places.
  std::vector<TokenId> tokens;
  std::int32_t pending = 0;
  // Leading tokens whose keys and values are in the cache, or will be after the enqueued steps.
  std::int64_t computed = 0;
  std::int64_t prompt_logprobs_asked = 0;  // in steps enqueued so far
  BlockTable table;
  PrefixCache::Position prefix;  // entered while it runs, if there is a prefix cache
  OutputText text;
  std::shared_ptr<TokenFilter> filter;  // null: any token may come
  FoundEnding ending;
  std::optional<TimePoint> last_token;  // when it became known
  std::vector<HeldSamples> held;        // of ended steps, oldest first; not scheduled meanwhile
  bool admitted = false;                // has been scheduled once; preemption does not reset it
  bool ended = false;                   // left the scheduler; its results in flight are void
  bool told = false;                    // its end was sent, or will be with the next send()
  bool counted = false;                 // by its adapter, as waiting or running
  std::int32_t times_stuck = 0;         // see ContinuousBatcher::stuck()
  std::int32_t steps_in_flight = 0;     // enqueued steps with rows of it
  // How often it was reset because workers did not answer (ContinuousBatcher::replay): earlier
  // results in flight are void. After the first time it waits until its whole adapter has arrived.
  std::uint32_t replays = 0;

  // Counts it as waiting for its adapter after submit, and as running with it from its first rows.
  void join_adapter() {
    if (context->adapter == nullptr || std::exchange(counted, true)) return;
    context->adapter->waiting.fetch_add(1, std::memory_order_relaxed);
  }
  void admit() {
    if (std::exchange(admitted, true) || !counted) return;
    context->adapter->waiting.fetch_sub(1, std::memory_order_relaxed);
    context->adapter->running.fetch_add(1, std::memory_order_relaxed);
  }
  void leave_adapter() {
    if (!std::exchange(counted, false)) return;
    auto& count = admitted ? context->adapter->running : context->adapter->waiting;
    count.fetch_sub(1, std::memory_order_relaxed);
  }

  std::int64_t prompt_len() const {
    return static_cast<std::int64_t>(context->request.prompt.size());
  }
  std::int64_t output_len() const {
    return static_cast<std::int64_t>(tokens.size()) - prompt_len();
  }
  std::int64_t known_len() const { return static_cast<std::int64_t>(tokens.size()) - pending; }
  // True if its last token is in flight, so that nothing of it is left to plan.
  bool awaits_last_token() const {
    return pending > 0 && output_len() >= std::max(context->request.max_tokens, 1);
  }
  // True if its reader has enough to read.
  bool stands_aside() const { return context->state->reader_is_behind(); }
  // True if it waits for its own results.
  bool is_paused() const { return awaits_last_token() || !held.empty(); }
  std::int64_t left_to_compute() const {
    return static_cast<std::int64_t>(tokens.size()) - computed;
  }
  // Log probabilities of the prompt are computed for one continuation only, and once: they are sent
  // with its next token, and a preemption after that must not compute them again.
  bool scores_prompt() const { return index == context->lead && !context->prompt_told; }
  bool wants_prompt_logprobs() const {
    return scores_prompt() && context->request.prompt_logprobs &&
           prompt_logprobs_asked < prompt_len() - 1;
  }
  // Drops its results in flight: it starts again from its known tokens. The caller handles its
  // pages and the steps that use them.
  void set_back() {
    tokens.resize(static_cast<std::size_t>(known_len()));
    pending = 0;
    held.clear();
    ending = {};
    computed = 0;
    if (scores_prompt()) {
      prompt_logprobs_asked = static_cast<std::int64_t>(context->prompt_logprobs.size());
    }
  }
  // Called when a step with its next `num_tokens` tokens, `prompt_logprobs` of them scored, is
  // enqueued. If these are its last tokens, the next token is sample number `next_sample` of the
  // step.
  void advance(std::int32_t num_tokens, std::int32_t prompt_logprobs, std::int32_t next_sample) {
    computed += num_tokens;
    prompt_logprobs_asked += prompt_logprobs;
    if (left_to_compute() > 0) return;
    tokens.push_back(-1 - next_sample);
    ++pending;
  }
};

}  // namespace tandem
