// One continuation of one request, as the scheduler and the engine see it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/adapters/adapter_store.h"
#include "engine/base/clock.h"
#include "engine/batching/generation.h"
#include "engine/batching/generation_state.h"
#include "engine/batching/output_text.h"
#include "engine/memory/block_table.h"
#include "engine/memory/prefix_cache.h"

namespace tandem {

// What the n continuations of a request share. Written by the engine thread alone after submit.
struct RequestContext {
  GenerationRequest request;
  AdapterLease adapter;  // null: base model
  std::shared_ptr<GenerationState> state;
  std::uint64_t seed = 0;
  GenerationStats stats;
  TimePoint submitted;
  std::optional<TimePoint> first_scheduled;
  std::optional<TimePoint> first_token;
  std::vector<TokenLogprob> prompt_logprobs;  // of prompt tokens 1, 2, ... as they are computed
};

struct Sequence {
  Sequence(std::shared_ptr<RequestContext> ctx, std::int32_t index_in_request,
           std::uint64_t arrival_number, PagePool& pool, OutputText output)
      : context(std::move(ctx)),
        index(index_in_request),
        arrival(arrival_number),
        tokens(context->request.prompt),
        table(pool),
        text(std::move(output)) {}

  std::shared_ptr<RequestContext> context;
  std::int32_t index;
  std::uint64_t arrival;        // order of submission, kept through preemption
  std::vector<TokenId> tokens;  // prompt, then output
  std::int64_t computed = 0;    // leading tokens whose keys and values are in the cache
  BlockTable table;
  PrefixCache::Position prefix;  // entered while it runs, if there is a prefix cache
  OutputText text;
  bool admitted = false;  // has been scheduled once; preemption does not undo it

  std::int64_t prompt_len() const {
    return static_cast<std::int64_t>(context->request.prompt.size());
  }
  std::int64_t output_len() const {
    return static_cast<std::int64_t>(tokens.size()) - prompt_len();
  }
  std::int64_t left_to_compute() const {
    return static_cast<std::int64_t>(tokens.size()) - computed;
  }
  // Log probabilities of the prompt are asked of the first continuation alone, and once: they go
  // out with its first token, and a preemption after it must not compute them again.
  bool wants_prompt_logprobs() const {
    return index == 0 && output_len() == 0 && context->request.prompt_logprobs &&
           static_cast<std::int64_t>(context->prompt_logprobs.size()) < prompt_len() - 1;
  }
};

}  // namespace tandem
