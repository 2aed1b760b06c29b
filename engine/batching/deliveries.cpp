#include "engine/batching/deliveries.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "engine/continuation/token_outcome.h"
#include "engine/model/step/steps_in_flight.h"

namespace tandem {
namespace {

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
                       ColdStartLog& cold_starts, const Clock& clock)
    : scheduler_(&scheduler), cold_starts_(&cold_starts), clock_(&clock) {
  ended_.reserve(kMaxStepsInFlight * static_cast<std::size_t>(max_num_seqs));
}

bool Deliveries::take(Sequence& sequence, std::span<const SampledToken> samples,
                      const StateSum& states, std::int64_t next_token) noexcept {
  try {
    return try_to_take(sequence, samples, states, next_token);
  } catch (const std::bad_alloc&) {
    lose(sequence);
    return false;
  }
}

bool Deliveries::try_to_take(Sequence& sequence, std::span<const SampledToken> samples,
                             const StateSum& states, std::int64_t next_token) {
  RequestContext& context = sequence.context();
  const std::size_t scored = samples.size() - (next_token >= 0 ? 1 : 0);
  if (context.request.prompt_logprobs) {
    for (const SampledToken& sample : samples.first(scored)) {
      context.prompt_logprobs.push_back(to_token_logprob(sample));
    }
  }
  context.scored += static_cast<std::int64_t>(scored);
  context.states.add(states);
  return next_token < 0 || accept_token(sequence, next_token, samples.back());
}

// The tokens after it, if any, are in flight.
bool Deliveries::accept_token(Sequence& sequence, std::int64_t index, const SampledToken& sampled) {
  RequestContext& context = sequence.context();
  const GenerationRequest& request = context.request;
  sequence.tokens.learn(index, sampled.token);
  const std::int64_t output_len = sequence.tokens.known_len() - sequence.tokens.prompt_len();

  OutputDelta delta;
  delta.index = sequence.index;
  if (sequence.prompt_logprobs.are_due()) {
    delta.prompt_logprobs = std::move(context.prompt_logprobs);
    context.prompt_told = true;
  }
  if (request.max_tokens == 0) {  // only the prompt was asked for
    delta.pooled = context.states.mean();
    if (context.score != nullptr) delta.pooled = context.score->scores(delta.pooled);
    delta.finish = FinishReason::length;
    finish(sequence, std::move(delta));
    return false;
  }
  const TimePoint now = clock_->now();
  if (const std::optional<double> passed = sequence.output.token_came(now)) {
    inter_token_.count(kInterTokenBounds, *passed);
  }
  if (!context.first_token) {
    context.first_token = now;
    context.stats.ttft_s = seconds_between(context.submitted, *context.first_token);
    // The time of a cold adapter is no prefill time, and not valid for other adapters' prompts.
    if (context.first_scheduled && context.began_warm && sequence.replays() == 0) {
      scheduler_->line().saw_prefill(seconds_between(*context.first_scheduled, now),
                                     sequence.tokens.prompt_len());
    }
    const bool found_cold =
        context.adapter != nullptr && context.stats.adapter_tier != tier_name(Residency::resident);
    if (found_cold) cold_starts_->first_token(*context.adapter);
  }
  sequence.place.charge_output(1);
  ++context.stats.completion_tokens;
  ++num_tokens_;
  const bool constrained = sequence.filter != nullptr && sequence.filter->has_constraint();
  TokenOutcome outcome = take_token(request, context.end_tokens, constrained, output_len,
                                    sampled.token, sequence.output.text());
  delta.text = std::move(outcome.text);
  delta.finish = outcome.finish;
  delta.stop_reason = std::move(outcome.stop_reason);
  if (outcome.is_end_token) {
    delta.end_token = sampled.token;
  } else {
    delta.tokens.push_back(sampled.token);
    if (request.num_logprobs >= 0) delta.logprobs.push_back(to_token_logprob(sampled));
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
    if (reason == FinishReason::stop) last.text = sequence.output.text().flush();
    last.error = why;
  } catch (const std::bad_alloc&) {
    return lose(sequence);
  }
  finish(sequence, std::move(last));
}

void Deliveries::give_up(Sequence& sequence, std::int32_t retry_after_s) noexcept {
  OutputDelta last;
  last.finish = FinishReason::failed;
  last.retry_after_s = retry_after_s;
  try {
    last.error = error(StatusCode::resource_exhausted,
                       "the first token would come later than its deadline, {:g} ms after the "
                       "request was queued",
                       sequence.context().request.ttft_deadline_s * 1e3);
  } catch (const std::bad_alloc&) {
    return lose(sequence);
  }
  finish(sequence, std::move(last));
}

void Deliveries::lose(Sequence& sequence) noexcept {
  sequence.context().state->lose(sequence.index);
  remove(sequence);
}

void Deliveries::finish(Sequence& sequence, OutputDelta delta) noexcept {
  delta.index = sequence.index;
  RequestContext& context = sequence.context();
  context.stats.total_s = seconds_between(context.submitted, clock_->now());
  try {
    outbox_.push_back({context.state, std::move(delta), context.stats});
  } catch (const std::bad_alloc&) {
    return lose(sequence);
  }
  remove(sequence);
}

void Deliveries::remove(Sequence& sequence) noexcept {
  std::unique_ptr<Sequence> owned = scheduler_->remove(&sequence);
  owned->life.end();
  if (owned->is_in_flight()) ended_.push_back(std::move(owned));
}

bool Deliveries::left_step(Sequence& sequence) noexcept {
  sequence.leave_step();
  if (!sequence.life.has_ended()) return true;
  if (sequence.is_in_flight()) return false;
  ended_.erase(std::find_if(ended_.begin(), ended_.end(),
                            [&](const auto& each) { return each.get() == &sequence; }));
  return false;
}

void Deliveries::send() noexcept {
  for (News& news : outbox_) news.state->push(std::move(news.delta), news.stats);
  outbox_.clear();
}

}  // namespace tandem
