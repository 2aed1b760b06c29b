#include "engine/batching/engine_loop.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log/log.h"
#include "base/trace/tracer.h"
#include "engine/batching/batch/token_masks.h"
#include "engine/batching/statistics.h"

namespace tandem {

namespace {

void trace_workers(const RequestContext& context, const StepResult::Served& served,
                   std::uint64_t step) noexcept {
  const TraceContext& call = context.request.trace;
  if (!call.sampled || !trace::on() || served.workers_ended == TimePoint{}) return;
  trace::record(
      request_span("CPU workers", call.child(), served.workers_began, served.workers_ended)
          .add("layers", static_cast<double>(served.cpu_layers))
          .add("step", static_cast<double>(step)));
}

}  // namespace

EngineLoop::EngineLoop(const EngineOptions& options, const BatchLimits& limits, const Parts& parts)
    : options_(options),
      pool_(&parts.pool),
      prefixes_(parts.prefixes),
      store_(&parts.store),
      executor_(&parts.executor),
      inbox_(&parts.inbox),
      recording_(parts.recording),
      clock_(&parts.clock),
      scheduler_(limits, parts.pool, parts.prefixes, options.line),
      gate_(options.adapter_mode, parts.store, parts.executor.tier(), parts.pool),
      keeper_(parts.store, parts.executor.tier(), gate_, options.max_model_len),
      deliveries_(scheduler_, limits.max_num_seqs, parts.cold_starts, parts.clock),
      report_(parts.view, parts.pool, parts.chunk_bytes),
      hopeless_(StatusCode::fatal, "the engine has no memory left to go on with") {
  pool_->set_costs(reclaim_costs(parts.view, pool_->shape()));
  scheduler_.set_gate(gate_);
  Handoff* const handoff = executor_->handoff();
  if (handoff == nullptr) return;
  gate_.set_wake([handoff] { handoff->wake_workers(); });
  if (!goes_by_figures(options.adapter_mode)) return;
  gate_.set_plan([this, handoff](std::vector<AdapterRows> waiting, std::vector<AdapterRows> loads) {
    for (std::vector<AdapterRows>* list : {&waiting, &loads}) {
      for (AdapterRows& each : *list) {
        each.rows = std::min(each.rows, options_.max_num_batched_tokens);
      }
    }
    return handoff->admission(waiting, loads, static_cast<std::int32_t>(scheduler_.num_running()),
                              executor_->times().next_starts_in(),
                              executor_->tier().loads().first());
  });
}

void EngineLoop::run() noexcept {
  for (bool goes_on = true; goes_on;) {
    try {
      goes_on = run_round();
    } catch (const std::exception& failure) {
      recover(failure.what());
    } catch (...) {
      recover("an unknown exception");
    }
  }
  end_all();
}

bool EngineLoop::run_round() {
  wait_for_work();
  planning_ = {.since = clock_->now()};
  // Ordering the loads of many adapters takes a while. Requests that come meanwhile join the step
  // if the device is idle, so that they need not wait for a whole step.
  constexpr int kMostJoin = 3;
  int joined = 0;
  const auto is_joined = [&] {
    if (!executor_->empty() || ++joined > kMostJoin || !inbox_->wait(Duration::zero()))
      return false;
    planning_.since = clock_->now();  // it is planned again
    return true;
  };
  do {
    take_in();
    if (inbox_->is_stopping()) return false;
    has_news_ = false;
    look_after_sequences();
    give_up_late();
    look_after_adapters();
  } while (!is_due() || is_joined());
  run_step();
  return true;
}

void EngineLoop::take_in() {
  Inbox::Arrivals arrivals = inbox_->take();
  has_news_ = has_news_ || !arrivals.empty();
  for (auto& sequence : arrivals.sequences) {
    try {
      scheduler_.add(std::move(sequence));
    } catch (const std::bad_alloc&) {  // destroyed; its reader gets an error
    }
  }
  for (KeepRequest& request : arrivals.keep) {
    try {
      keeper_.add(std::move(request));
    } catch (const std::bad_alloc&) {  // likewise
    }
  }
}

void EngineLoop::look_after_sequences() {
  for (Sequence* sequence : scheduler_.all()) {
    if (sequence->context().state->cancelled()) {
      deliveries_.end(*sequence, FinishReason::cancelled, {});
    } else if (!sequence->results.held().empty()) {
      release_held(*sequence);
    }
  }
}

// Comes before the loads of their adapters, and before any other work for them.
void EngineLoop::give_up_late() {
  WaitingLine& line = scheduler_.line();
  const TimePoint now = clock_->now();
  line.tick(now);
  const std::vector<Sequence*>& late = line.late(now, scheduler_.num_running() == 0);
  if (late.empty()) return;
  const std::int32_t retry_after_s = line.retry_after_s();
  for (Sequence* sequence : late) deliveries_.give_up(*sequence, retry_after_s);
}

void EngineLoop::look_after_adapters() {
  if (const Status status = executor_->tier().poll(); !status) {
    log::error("loading adapters failed, all requests end: {}", status.message());
    for (Sequence* sequence : scheduler_.all()) {
      deliveries_.end(*sequence, FinishReason::failed, status);
    }
    inbox_->end_if_fatal(status);
  }
  keeper_.advance();
  start_loads();
}

void EngineLoop::start_loads() {
  scheduler_.arrange();  // loads begin in the order of the sequences
  for (const auto& [sequence, why] : gate_.request(scheduler_.waiting())) {
    deliveries_.end(*sequence, FinishReason::failed, why);
  }
}

// Enqueues the next step, if there is one, and hands out the results of the oldest step, if it is
// time to wait for it.
void EngineLoop::run_step() {
  const TimePoint begin = clock_->now();
  Duration waited{};
  if (enqueuing_would_take_long()) {
    waited = hand_out_oldest();
    deliveries_.send();
    planning_.held = false;  // this wait is not the timer's
    planning_.since = clock_->now();
  }
  const std::vector<ScheduledSequence>& scheduled = scheduler_.plan();
  step_was_empty_ = scheduled.empty();
  help_stuck();
  executor_->times().planning(planning_);
  if (!scheduled.empty()) {
    note_scheduled(scheduled, begin);
    enqueue(scheduled);
  }
  if (executor_->num_in_flight() == 1) give_masks();  // all tokens before the step are known
  if (executor_->full() || (scheduled.empty() && !executor_->empty())) waited += hand_out_oldest();
  give_masks();
  publish_stats();
  publish_view();
  deliveries_.send();
  const Duration worked = clock_->now() - begin - waited;
  counts_.host_seconds_total += std::chrono::duration<double>(worked).count();
}

// Enqueueing a step that waits for late loads blocks until the load stream has room, and results of
// a step that ends meanwhile would be handed out too late.
bool EngineLoop::enqueuing_would_take_long() {
  if (executor_->empty() || !starts_before_arrival(options_.adapter_mode)) return false;
  if (executor_->tier().loads().has_room()) return false;
  return std::ranges::any_of(scheduler_.all(), [](const Sequence* sequence) {
    const AdapterLease& adapter = sequence->context().adapter;
    return adapter != nullptr && adapter->residency() == Residency::loading;
  });
}

// Adapters that were loaded between others may be spread over more pages than they fill. They are
// evicted and loaded again, into contiguous free room. If pages are still missing after that, the
// sequence fails.
void EngineLoop::help_stuck() {
  constexpr std::int32_t kMostTimes = 3;
  Sequence* sequence = scheduler_.stuck();
  if (sequence == nullptr || executor_->tier().counts().loading > 0) return;
  if (sequence->count_stuck() < kMostTimes) {
    executor_->tier().room().evict_idle();
    return;
  }
  const PoolCounts pages = pool_->counts();
  deliveries_.end(
      *sequence, FinishReason::failed,
      error(StatusCode::resource_exhausted,
            "the request needs {} pages so far; of the pool's {}, {} are taken by pinned "
            "adapters: ask for less, or raise pool_gb",
            pool_->shape().pages_for(sequence->tokens.size()), pool_->shape().num_pages,
            pages.adapter));
}

void EngineLoop::note_scheduled(const std::vector<ScheduledSequence>& scheduled, TimePoint now) {
  std::int64_t step_tokens = 0;
  for (const auto& [sequence, num_tokens] : scheduled) {
    step_tokens += num_tokens;
    RequestContext& context = sequence->context();
    const std::int64_t prompt_left = sequence->tokens.prompt_len() - sequence->computed();
    counts_.prompt_tokens +=
        static_cast<std::uint64_t>(std::clamp<std::int64_t>(prompt_left, 0, num_tokens));
    if (!context.first_scheduled) {
      context.first_scheduled = now;
      context.began_warm =
          context.adapter == nullptr || context.adapter->residency() == Residency::resident;
      context.stats.queue_s = seconds_between(context.submitted, now);
    }
    if (!sequence->life.has_begun()) sequence->life.begin();
  }
  counts_.step_tokens.count(kStepTokensBounds, static_cast<double>(step_tokens));
}

void EngineLoop::enqueue(const std::vector<ScheduledSequence>& scheduled) {
  report_.begins(scheduled, clock_->now());
  std::vector<PlannedEntry>& entries = planned_[num_enqueued_++ % planned_.size()];
  build_plan(scheduled, executor_->tier(), plan_, entries);
  if (recording_ != nullptr) record_plan(entries);
  executor_->enqueue(plan_);
}

// Gives the step enqueued last its masks, if it awaits them. The device computes meanwhile.
void EngineLoop::give_masks() {
  const std::span<std::uint32_t> masks = executor_->masks();
  if (masks.empty()) return;
  fill_masks(planned_[(num_enqueued_ - 1) % planned_.size()], std::ssize(masks) / plan_.num_masks,
             masks, mask_thread_);
  if (recording_ != nullptr) recording_->add_masks(masks);
  executor_->sample();
}

Duration EngineLoop::hand_out_oldest() {
  Duration waited{};
  bool failed = false;
  do {
    const TimePoint begin = clock_->now();
    wait_for_step();
    const StepResult step = executor_->wait();
    waited += clock_->now() - begin;
    failed = !step.status.ok();
    digest(step, planned_[num_digested_++ % planned_.size()]);
  } while (failed && !executor_->empty());  // the steps after a failed one have failed, too
  return waited;
}

void EngineLoop::digest(const StepResult& step, const std::vector<PlannedEntry>& entries) {
  report_.ends(step, clock_->now());
  ++counts_.steps;
  counts_.step_seconds_total += step.seconds;
  counts_.gap_seconds_total += step.gap_seconds;
  if (!step.status.ok()) {
    log::error("a step failed, its requests end: {}", step.status.message());
    inbox_->end_if_fatal(step.status);
  }
  for (const SlotId slot : step.timed_out) {
    const auto entry = std::find_if(entries.begin(), entries.end(),
                                    [&](const PlannedEntry& each) { return each.slot == slot; });
    TANDEM_CHECK(entry != entries.end(), "slot {} was not in the step", slot.value());
    replay(*entry->sequence->context().adapter);
  }
  for (const StepResult::Served& served : step.served) {
    const RequestContext* last = nullptr;
    for (const PlannedEntry& entry : entries) {
      RequestContext& context = entry.sequence->context();
      if (entry.slot != served.slot || &context == last) continue;
      context.stats.cpu_layers += served.cpu_layers;
      trace_workers(context, served, counts_.steps);
      last = &context;
    }
  }
  if (recording_ != nullptr) record_result(step, entries);
  for (const PlannedEntry& entry : entries) digest_entry(step, entry);
  // The results that the step should have computed were offered when it was planned.
  if (!step.status.ok() && prefixes_ != nullptr) prefixes_->drop_idle();
  ++steps_through_;
}

void EngineLoop::record_plan(const std::vector<PlannedEntry>& entries) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const AdapterSlot slot = plan_.entries[i].adapter;
    if (!slot.slot.valid()) continue;
    const AdapterLease& adapter = entries[i].sequence->context().adapter;
    recording_->note_adapter(
        {slot.slot, slot.max_rank, adapter->contents().digest, adapter->path()});
  }
  recording_->add_plan(plan_);
}

// Called before the entries are digested, while their sequences still exist.
void EngineLoop::record_result(const StepResult& step, const std::vector<PlannedEntry>& entries) {
  std::vector<std::uint8_t> is_stale;
  is_stale.reserve(entries.size());
  for (const PlannedEntry& entry : entries) is_stale.push_back(entry.is_stale() ? 1 : 0);
  recording_->add_result(step, is_stale);
}

void EngineLoop::digest_entry(const StepResult& step, const PlannedEntry& entry) {
  Sequence& sequence = *entry.sequence;
  if (!deliveries_.left_step(sequence)) return;
  if (entry.is_stale()) return;  // it is computed again
  if (!step.status.ok()) {
    deliveries_.end(sequence, FinishReason::failed, step.status);
    return;
  }
  // The proof is that of the copy that the step used: the adapter may have left the device by now,
  // or be loaded again.
  if (const Status bad = entry.proof.status(); !bad) return fail_or_replay(sequence, bad);
  if (entry.samples.count == 0) return;
  const auto samples = step.samples.subspan(static_cast<std::size_t>(entry.samples.first),
                                            static_cast<std::size_t>(entry.samples.count));
  StateSum states;
  if (sequence.context().request.pooling != Pooling::none) {
    states.add(step.states.slice_rows(entry.samples.first, entry.samples.count));
  }
  // No token is sent before the adapter's contents are proven, as its layers may have been used
  // while its folder was still being read. Only this sequence waits for that.
  if (!sequence.results.held().empty() || !entry.proof.is_given()) {
    sequence.results.hold(
        {{samples.begin(), samples.end()}, std::move(states), entry.next_token, entry.proof});
    return;
  }
  (void)take(sequence, samples, states, entry.next_token);
}

// Returns false if that was its last token; the sequence may be destroyed then.
bool EngineLoop::take(Sequence& sequence, std::span<const SampledToken> samples,
                      const StateSum& states, std::int64_t next_token) {
  const FoundEnding& ending = sequence.results.ending();
  if (ending.at < 0 || ending.at != next_token) {
    return deliveries_.take(sequence, samples, states, next_token);
  }
  deliveries_.end(sequence, ending.reason, Status(ending.why));
  return false;
}

// The store notifies the engine when a reading has ended; the device tier ends those that are
// overdue.
void EngineLoop::release_held(Sequence& sequence) {
  for (const HeldSamples& held : sequence.results.held()) {
    if (const Status bad = held.proof.status(); !bad) return fail_or_replay(sequence, bad);
    if (!held.proof.is_given()) return;
  }
  for (const HeldSamples& held : sequence.results.release_held()) {
    if (!take(sequence, held.samples, held.states, held.next_token)) return;
  }
}

// The contents of its adapter were wrong. If the adapter is still arriving from elsewhere, or has
// arrived since, the sequence is computed again; if no source has it, the sequence fails while it
// waits.
void EngineLoop::fail_or_replay(Sequence& sequence, const Status& bad) {
  const AdapterHome& home = sequence.context().adapter->home();
  const std::uint64_t before = sequence.context().readings_before;
  if (const Status failure = home.read_failure(before); !failure) {
    return deliveries_.end(sequence, FinishReason::failed, failure);
  }
  if (!home.is_arriving() && home.num_readings() == before) {
    return deliveries_.end(sequence, FinishReason::failed, bad);
  }
  scheduler_.replay(&sequence);
  ++counts_.replays;
}

// Workers did not answer for rows of this adapter. Results computed from them may be invalid, as
// may pages that sequences of the same contents share through the prefix cache: all of them start
// again from their known tokens.
void EngineLoop::replay(const ServedAdapter& adapter) {
  const std::string& digest = adapter.contents().digest;
  for (Sequence* sequence : scheduler_.all()) {
    const AdapterLease& its = sequence->context().adapter;
    if (its == nullptr || its->contents().digest != digest) continue;
    // A sequence that has not begun has no results.
    if (!sequence->life.has_begun()) continue;
    scheduler_.replay(sequence);
    ++counts_.replays;
  }
  if (prefixes_ != nullptr) prefixes_->drop_idle();
}

void EngineLoop::publish_stats() {
  counts_.generation_tokens = deliveries_.num_tokens();
  counts_.inter_token = deliveries_.inter_token();
  count_sequences(scheduler_, counts_);
  count_pages(*pool_, counts_);
  count_steps(*executor_, counts_);
  count_adapters(*store_, *executor_, counts_);
  inbox_->publish(counts_);
}

void EngineLoop::publish_view() {
  const TimePoint now = clock_->now();
  if (!report_.is_due(now, step_was_empty_)) return;
  const EngineView& view = report_.look(scheduler_, executor_->tier(), now);
  pool_->set_costs(reclaim_costs(view, pool_->shape()));
  inbox_->publish(view, report_.step_ends());
}

void EngineLoop::end_all() noexcept {
  try {
    const Status failure = inbox_->failure();
    keeper_.end(failure.ok() ? Status(StatusCode::unavailable, "the server is shutting down")
                             : failure);
    for (Sequence* sequence : scheduler_.all()) {
      deliveries_.end(*sequence, failure.ok() ? FinishReason::cancelled : FinishReason::failed,
                      failure);
    }
    while (!executor_->empty()) (void)hand_out_oldest();
  } catch (const std::exception&) {
    (void)executor_->abandon();
    deliveries_.left_all_steps();
    scheduler_.restart();
    lose_sequences(/*waiting_too=*/true);
    keeper_.end({});
  }
  deliveries_.send();
}

}  // namespace tandem
