#include "engine/batching/deliveries.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"
#include "engine/model/steps_in_flight.h"

namespace tandem {
namespace {

bool holds(std::span<const TokenId> ids, TokenId token) {
  return std::find(ids.begin(), ids.end(), token) != ids.end();
}

TokenLogprob to_token_logprob(const SampledToken& sampled) {
  TokenLogprob result;
  result.token = sampled.token;
  result.logprob = sampled.logprob;
  for (std::int32_t i = 0; i < sampled.num_top; ++i) {
    result.top.emplace_back(sampled.top_tokens[i], sampled.top_logprobs[i]);
  }
  return result;
}

}  // namespace

Deliveries::Deliveries(ContinuousBatcher& scheduler, std::int32_t max_num_seqs,
                       std::span<const TokenId> eos_token_ids, const Clock& clock)
    : scheduler_(&scheduler), eos_token_ids_(eos_token_ids), clock_(&clock) {
  ended_.reserve(kMaxStepsInFlight * static_cast<std::size_t>(max_num_seqs));
}

bool Deliveries::take(Sequence& sequence, std::span<const SampledToken> samples,
                      std::int64_t next_token) noexcept {
  try {
    return try_to_take(sequence, samples, next_token);
  } catch (const std::bad_alloc&) {
    lose(sequence);
    return false;
  }
}

bool Deliveries::try_to_take(Sequence& sequence, std::span<const SampledToken> samples,
                             std::int64_t next_token) {
  const std::size_t scored = samples.size() - (next_token >= 0 ? 1 : 0);
  for (const SampledToken& sample : samples.first(scored)) {
    sequence.context->prompt_logprobs.push_back(to_token_logprob(sample));
  }
  return next_token < 0 || accept_token(sequence, next_token, samples.back());
}

// What comes after it, if anything, is under way.
bool Deliveries::accept_token(Sequence& sequence, std::int64_t index, const SampledToken& sampled) {
  RequestContext& context = *sequence.context;
  const GenerationRequest& request = context.request;
  TANDEM_CHECK(index == sequence.known_len(), "token {} after {}", index, sequence.known_len());
  sequence.tokens[static_cast<std::size_t>(index)] = sampled.token;
  --sequence.pending;
  const std::int64_t output_len = sequence.known_len() - sequence.prompt_len();

  OutputDelta delta;
  delta.index = sequence.index;
  if (output_len == 1 && sequence.index == 0) {
    delta.prompt_logprobs = std::move(context.prompt_logprobs);
  }
  if (request.max_tokens == 0) {  // only the prompt was asked about
    delta.finish = FinishReason::length;
    finish(sequence, std::move(delta));
    return false;
  }
  const TimePoint now = clock_->now();
  if (sequence.last_token) {
    inter_token_.count(kInterTokenBounds, seconds_between(*sequence.last_token, now));
  }
  sequence.last_token = now;
  if (!context.first_token) {
    context.first_token = now;
    context.stats.ttft_s = seconds_between(context.submitted, *context.first_token);
  }
  ++context.stats.completion_tokens;
  ++num_tokens_;
  const bool stops_count = output_len >= request.min_tokens;
  const bool is_stop = holds(request.stop_token_ids, sampled.token);
  const bool is_end = holds(eos_token_ids_, sampled.token);
  // A constraint lets it come where nothing else may.
  const bool whole = is_end && sequence.filter != nullptr && sequence.filter->has_constraint();
  if (whole || (stops_count && (is_stop || (!request.ignore_eos && is_end)))) {
    delta.text = sequence.text.flush();
    delta.finish = FinishReason::stop;
    if (is_stop && stops_count) delta.stop_reason = std::to_string(sampled.token);
    finish(sequence, std::move(delta));
    return false;
  }
  delta.tokens.push_back(sampled.token);
  if (request.num_logprobs >= 0) delta.logprobs.push_back(to_token_logprob(sampled));
  delta.text = sequence.text.push(sampled.token, stops_count);
  if (const auto& stop = sequence.text.stopped_by()) {
    delta.finish = FinishReason::stop;
    delta.stop_reason = *stop;
  } else if (output_len >= request.max_tokens) {
    delta.text += sequence.text.flush();
    delta.finish = FinishReason::length;
  }
  if (delta.finish != FinishReason::none) {
    finish(sequence, std::move(delta));
    return false;
  }
  context.stats.total_s = seconds_between(context.submitted, now);
  outbox_.push_back({context.state, std::move(delta), context.stats});
  return true;
}

void Deliveries::end(Sequence& sequence, FinishReason reason, const Status& why) noexcept {
  OutputDelta last;
  last.finish = reason;
  try {
    if (reason == FinishReason::stop) last.text = sequence.text.flush();
    last.error = why;
  } catch (const std::bad_alloc&) {
    return lose(sequence);
  }
  finish(sequence, std::move(last));
}

void Deliveries::lose(Sequence& sequence) noexcept {
  sequence.context->state->lose(sequence.index);
  sequence.told = true;
  remove(sequence);
}

void Deliveries::finish(Sequence& sequence, OutputDelta delta) noexcept {
  delta.index = sequence.index;
  RequestContext& context = *sequence.context;
  context.stats.total_s = seconds_between(context.submitted, clock_->now());
  try {
    outbox_.push_back({context.state, std::move(delta), context.stats});
  } catch (const std::bad_alloc&) {
    return lose(sequence);
  }
  sequence.told = true;
  remove(sequence);
}

void Deliveries::remove(Sequence& sequence) noexcept {
  std::unique_ptr<Sequence> owned = scheduler_->remove(&sequence);
  owned->leave_adapter();
  if (owned->steps_in_flight == 0) return;
  owned->ended = true;
  ended_.push_back(std::move(owned));
}

bool Deliveries::left_step(Sequence& sequence) noexcept {
  --sequence.steps_in_flight;
  if (!sequence.ended) return true;
  if (sequence.steps_in_flight > 0) return false;
  ended_.erase(std::find_if(ended_.begin(), ended_.end(),
                            [&](const auto& each) { return each.get() == &sequence; }));
  return false;
}

void Deliveries::send() noexcept {
  for (News& news : outbox_) news.state->push(std::move(news.delta), news.stats);
  outbox_.clear();
}

}  // namespace tandem
