// One continuation of one request, as the scheduler and the engine see it.
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
#include "scheduler/queue/fair_share.h"
#include "scheduler/queue/queue_order.h"

namespace tandem {

// What the n continuations of a request share. Written by the engine thread alone after submit.
struct RequestContext {
  GenerationRequest request;
  AdapterLease adapter;               // null: base model
  std::uint64_t readings_before = 0;  // of its folder that had ended (AdapterHome)
  std::shared_ptr<GenerationState> state;
  std::uint64_t seed = 0;
  GenerationStats stats;
  TimePoint submitted;
  std::optional<TimePoint> first_scheduled;
  bool began_warm = false;  // its adapter was on the device then
  std::optional<TimePoint> first_token;
  std::vector<TokenLogprob> prompt_logprobs;  // of prompt tokens 1, 2, ... as they are computed
  bool prompt_told = false;                   // they have gone out with a token
  std::int32_t lead = 0;                      // the first continuation that was not over before
};

// What a step has sampled for a sequence while the folder of its adapter was still being read
// (AdapterReading): held back until it is known to have been what it should be.
struct HeldSamples {
  std::vector<SampledToken> samples;  // log probabilities of the prompt, then the next token if any
  std::int64_t next_token = -1;       // its index in the sequence's tokens; -1: none
  AdapterProof proof;                 // of what they were computed from
};

// How a sequence ends in the place of a token, as its filter has found.
struct FoundEnding {
  std::int64_t at = -1;  // the token's index in Sequence::tokens; -1: it does not
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

  // However it goes: its reader is told, and its adapter no longer counts it.
  ~Sequence() {
    leave_adapter();
    if (!told) context->state->lose(index);
  }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  std::shared_ptr<RequestContext> context;
  std::int32_t index;
  std::uint64_t arrival;  // order of submission, kept through preemption
  // The waiting line's own (waiting_line.h): what its order goes by, its tenant's count of it, and
  // its turn as the line was arranged last; 0: priority and arrival alone decide.
  QueueEntry entry;
  TenantStay stay;
  std::uint32_t turn = 0;
  // Prompt, then output. The last `pending` are not known yet: steps that are under way will tell
  // them, and -1 - (index of the sample in its step) holds their places.
  std::vector<TokenId> tokens;
  std::int32_t pending = 0;
  // Leading tokens whose keys and values are in the cache, or will be when the enqueued steps ran.
  std::int64_t computed = 0;
  std::int64_t prompt_logprobs_asked = 0;  // of enqueued steps and those before
  BlockTable table;
  PrefixCache::Position prefix;  // entered while it runs, if there is a prefix cache
  OutputText text;
  std::shared_ptr<TokenFilter> filter;  // null: any token may come
  FoundEnding ending;
  std::optional<TimePoint> last_token;  // when it became known
  std::vector<HeldSamples> held;     // of steps that have ended, oldest first; nothing is planned
  bool admitted = false;             // has been scheduled once; preemption does not undo it
  bool ended = false;                // out of the scheduler; what is still under way is void
  bool told = false;                 // its reader is, or will be with the next news, that it ended
  bool counted = false;              // among those that wait for its adapter, or run with it
  std::int32_t times_stuck = 0;      // see ContinuousBatcher::stuck()
  std::int32_t steps_in_flight = 0;  // enqueued steps with rows of it
  // How often workers left it without an answer (ContinuousBatcher::replay): what steps under way
  // have of it from before is void. From then on it waits until all of its adapter is there.
  std::uint32_t replays = 0;

  // Once submitted it waits for its adapter; from its first rows on it runs with it.
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
  // Its last token is under way: nothing of it is left to plan.
  bool awaits_last_token() const {
    return pending > 0 && output_len() >= std::max(context->request.max_tokens, 1);
  }
  // Its reader has enough to read.
  bool stands_aside() const { return context->state->reader_is_behind(); }
  // It goes on when what it awaits is there.
  bool is_paused() const { return awaits_last_token() || !held.empty(); }
  std::int64_t left_to_compute() const {
    return static_cast<std::int64_t>(tokens.size()) - computed;
  }
  // Log probabilities of the prompt are asked of one continuation alone, and once: they go out with
  // its next token, and a preemption after it must not compute them again.
  bool scores_prompt() const { return index == context->lead && !context->prompt_told; }
  bool wants_prompt_logprobs() const {
    return scores_prompt() && context->request.prompt_logprobs &&
           prompt_logprobs_asked < prompt_len() - 1;
  }
  // Forgets what steps under way were to tell of it: it starts again from the tokens that are
  // known. Its pages, and who computes with them, are the caller's business.
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
  // A step with its next `num_tokens` is enqueued, of which `prompt_logprobs` are scored; if they
  // are its last ones, the token that follows is sample number `next_sample` of the step.
  void advance(std::int32_t num_tokens, std::int32_t prompt_logprobs, std::int32_t next_sample) {
    computed += num_tokens;
    prompt_logprobs_asked += prompt_logprobs;
    if (left_to_compute() > 0) return;
    tokens.push_back(-1 - next_sample);
    ++pending;
  }
};

}  // namespace tandem
