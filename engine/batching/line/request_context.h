// The data that the continuations of a request share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "engine/adapters/adapter_store.h"
#include "engine/batching/line/generation_state.h"
#include "engine/batching/line/state_sum.h"
#include "engine/loader/score_head.h"
#include "engine/service/generation.h"

namespace tandem {

// Only the engine thread writes it after submit.
struct RequestContext {
  GenerationRequest request;
  AdapterLease adapter;                        // null: base model
  std::shared_ptr<const Tokenizer> tokenizer;  // the adapter's own; null: the base's
  std::vector<TokenId> end_tokens;             // the base's, and the adapter's own
  std::int64_t adapter_from = 0;      // the first token that the adapter acts on; of the prompt
  std::uint64_t readings_before = 0;  // readings of its folder that had ended (AdapterHome)
  std::shared_ptr<GenerationState> state;
  std::uint64_t seed = 0;
  GenerationStats stats;
  TimePoint submitted;
  std::optional<TimePoint> first_scheduled;
  bool began_warm = false;  // its adapter was on the device at that time
  std::optional<TimePoint> first_token;
  std::vector<TokenLogprob> prompt_logprobs;  // of prompt tokens 1, 2, ... as they are computed
  std::int64_t scored = 0;  // prompt tokens of whose rows a log probability or state is known
  std::shared_ptr<const ScoreHead> score;  // to apply to the states; null: none
  StateSum states;                         // of the rows that GenerationRequest::pooling asks for
  bool prompt_told = false;                // they were sent with a token
  std::int32_t lead = 0;                   // the first continuation that had not ended before
};

}  // namespace tandem
