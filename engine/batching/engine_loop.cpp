// The engine thread: what it does from step to step.
#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/log.h"
#include "engine/batching/engine.h"

namespace tandem {

void Engine::run() {
  while (take_inbox()) {
    drop_cancelled();
    look_after_adapters();
    run_steps();
  }
  const Status why = failure();
  for (KeepRequest& request : keeping_) {
    request.done.set_value(why.ok() ? Status(StatusCode::unavailable, "the server is shutting down")
                                    : why);
  }
  for (Sequence* sequence : scheduler_.all()) {
    end_request(*sequence, why.ok() ? FinishReason::cancelled : FinishReason::failed, why);
  }
  while (!pipeline_->empty()) (void)hand_out_oldest();
  deliver();
}

bool Engine::take_inbox() {
  std::unique_lock lock(inbox_mutex_);
  const auto has_news = [this] {
    return stopping_ || !inbox_.empty() || !keep_inbox_.empty() || adapter_news_;
  };
  // Loads arrive without a word: they are looked at in short turns, by an engine that has nothing
  // else to do. Folders that were read come with a notification, cancellations do not.
  constexpr auto kLoadPoll = std::chrono::microseconds(100);
  constexpr auto kIdlePoll = std::chrono::milliseconds(10);
  if (step_was_empty_ && pipeline_->empty()) {
    pipeline_->rest();
    if (device_tier_->is_expecting()) {
      inbox_changed_.wait_for(lock, kLoadPoll, has_news);
    } else if (scheduler_.num_running() + scheduler_.num_waiting() > 0) {
      inbox_changed_.wait_for(lock, kIdlePoll, has_news);
    } else {
      inbox_changed_.wait(lock, has_news);
    }
  }
  for (auto& sequence : inbox_) scheduler_.add(std::move(sequence));
  inbox_.clear();
  for (KeepRequest& request : keep_inbox_) keeping_.push_back(std::move(request));
  keep_inbox_.clear();
  adapter_news_ = false;
  waiting_ = scheduler_.num_waiting();
  return !stopping_;
}

void Engine::drop_cancelled() {
  for (Sequence* sequence : scheduler_.all()) {
    if (sequence->context->state->cancelled()) {
      end_request(*sequence, FinishReason::cancelled, {});
    }
  }
}

// Enqueues the next step, if there is one to enqueue, and hands out what the oldest brought, if it
// is time to wait for it.
void Engine::run_steps() {
  const TimePoint begin = clock_->now();
  const std::vector<ScheduledSequence>& plan = scheduler_.plan();
  step_was_empty_ = plan.empty();
  help_stuck();
  if (!plan.empty()) {
    note_scheduled(plan, begin);
    pipeline_->enqueue(plan);
  }
  Duration waited{};
  if (pipeline_->full() || (plan.empty() && !pipeline_->empty())) waited = hand_out_oldest();
  publish_stats();
  deliver();
  const Duration worked = clock_->now() - begin - waited;
  counts_.host_seconds_total += std::chrono::duration<double>(worked).count();
}

void Engine::deliver() {
  for (News& news : outbox_) news.state->push(std::move(news.delta), news.stats);
  outbox_.clear();
}

void Engine::note_scheduled(const std::vector<ScheduledSequence>& plan, TimePoint now) {
  for (const auto& [sequence, num_tokens] : plan) {
    RequestContext& context = *sequence->context;
    const std::int64_t prompt_left = sequence->prompt_len() - sequence->computed;
    counts_.prompt_tokens +=
        static_cast<std::uint64_t>(std::clamp<std::int64_t>(prompt_left, 0, num_tokens));
    if (!context.first_scheduled) {
      context.first_scheduled = now;
      context.stats.queue_s = seconds_between(context.submitted, now);
    }
    if (!sequence->admitted && context.adapter != nullptr) {
      context.adapter->waiting.fetch_sub(1, std::memory_order_relaxed);
      context.adapter->running.fetch_add(1, std::memory_order_relaxed);
    }
    sequence->admitted = true;
  }
}

Duration Engine::hand_out_oldest() {
  Duration waited{};
  bool failed = false;
  do {
    const TimePoint begin = clock_->now();
    wait_for_arrivals();
    const FinishedStep step = pipeline_->wait();
    waited += clock_->now() - begin;
    failed = !step.status.ok();
    digest(step);
  } while (failed && !pipeline_->empty());  // what came after it is void, too
  return waited;
}

void Engine::digest(const FinishedStep& step) {
  ++counts_.steps;
  counts_.step_seconds_total += step.seconds;
  counts_.gap_seconds_total += step.gap_seconds;
  if (!step.status.ok()) {
    log::error("a step failed, its requests end: {}", step.status.message());
    end_if_fatal(step.status);
  }
  for (const AdapterLease& adapter : step.handoff.voided) replay(*adapter);
  note_served(step);
  for (const StepEntry& entry : step.entries) {
    Sequence& sequence = *entry.sequence;
    --sequence.steps_in_flight;
    if (sequence.ended) {
      if (sequence.steps_in_flight > 0) continue;
      ended_.erase(std::find_if(ended_.begin(), ended_.end(),
                                [&](const auto& each) { return each.get() == &sequence; }));
    } else if (entry.replays != sequence.replays) {
      continue;  // void: it is computed again
    } else if (!step.status.ok()) {
      end_request(sequence, FinishReason::failed, step.status);
    } else if (Status doubt = content_of(entry); !doubt) {
      end_request(sequence, FinishReason::failed, doubt);
    } else {
      digest_entry(entry, step.samples);
    }
  }
  // What the step should have computed was offered when it was planned.
  if (!step.status.ok() && prefixes_ != nullptr) prefixes_->drop_idle();
}

// Whether the sequence's adapter is what it should be. Its layers may have been computed from while
// its folder was still read: by now that has ended, or will in a moment, and no token leaves
// before.
Status Engine::content_of(const StepEntry& entry) {
  const AdapterLease& adapter = entry.sequence->context->adapter;
  if (adapter == nullptr) return {};
  const bool sampled = entry.samples.next_token || entry.samples.prompt_logprobs > 0;
  return sampled ? adapter->await_device_status() : adapter->device_status();
}

// Workers left rows of this adapter without an answer. Whatever was computed from them is in doubt,
// and so is what sequences of the same contents share with them through the prefix cache: all start
// again from the tokens that are known.
void Engine::replay(const ServedAdapter& adapter) {
  const std::string& digest = adapter.contents().digest;
  for (Sequence* sequence : scheduler_.all()) {
    const AdapterLease& its = sequence->context->adapter;
    if (its == nullptr || its->contents().digest != digest) continue;
    // One that waits and has nothing under way has nothing to lose.
    if (!sequence->admitted) continue;
    scheduler_.replay(sequence);
    ++counts_.replays;
  }
  if (prefixes_ != nullptr) prefixes_->drop_idle();
}

void Engine::note_served(const FinishedStep& step) {
  for (const HandoffOutcome::Served& served : step.handoff.served) {
    const RequestContext* last = nullptr;
    for (const StepEntry& entry : step.entries) {
      RequestContext& context = *entry.sequence->context;
      if (context.adapter.get() != served.adapter || &context == last) continue;
      context.stats.cpu_layers += served.cpu_layers;
      last = &context;
    }
  }
}

void Engine::digest_entry(const StepEntry& entry, const SampledToken* samples) {
  RequestContext& context = *entry.sequence->context;
  const SampledToken* sample = samples + entry.samples.first;
  for (std::int32_t i = 0; i < entry.samples.prompt_logprobs; ++i) {
    context.prompt_logprobs.push_back(to_token_logprob(*sample++));
  }
  if (entry.samples.next_token) accept_token(*entry.sequence, entry.next_token, *sample);
}

// `index` is the token's place in the sequence. What comes after it, if anything, is under way.
void Engine::accept_token(Sequence& sequence, std::int64_t index, const SampledToken& sampled) {
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
    return;
  }
  if (!context.first_token) {
    context.first_token = clock_->now();
    context.stats.ttft_s = seconds_between(context.submitted, *context.first_token);
  }
  ++context.stats.completion_tokens;
  ++counts_.generation_tokens;
  const bool stops_count = output_len >= request.min_tokens;
  if (stops_count && is_end_token(sampled.token, request, model_->config().eos_token_ids)) {
    delta.text = sequence.text.flush();
    delta.finish = FinishReason::stop;
    if (std::find(request.stop_token_ids.begin(), request.stop_token_ids.end(), sampled.token) !=
        request.stop_token_ids.end()) {
      delta.stop_reason = std::to_string(sampled.token);
    }
    finish(sequence, std::move(delta));
    return;
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
  } else {
    context.stats.total_s = seconds_between(context.submitted, clock_->now());
    outbox_.push_back({context.state, std::move(delta), context.stats});
  }
}

void Engine::end_request(Sequence& sequence, FinishReason reason, const Status& why) {
  OutputDelta last;
  last.finish = reason;
  last.error = why;
  finish(sequence, std::move(last));
}

void Engine::finish(Sequence& sequence, OutputDelta delta) {
  delta.index = sequence.index;
  std::unique_ptr<Sequence> owned = scheduler_.remove(&sequence);
  RequestContext& context = *owned->context;
  if (context.adapter != nullptr) {
    auto& count = owned->admitted ? context.adapter->running : context.adapter->waiting;
    count.fetch_sub(1, std::memory_order_relaxed);
  }
  context.stats.total_s = seconds_between(context.submitted, clock_->now());
  outbox_.push_back({context.state, std::move(delta), context.stats});
  if (owned->steps_in_flight > 0) {
    owned->ended = true;
    ended_.push_back(std::move(owned));
  }
}

}  // namespace tandem
