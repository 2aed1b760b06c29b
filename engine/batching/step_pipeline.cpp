#include "engine/batching/step_pipeline.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/log.h"

namespace tandem {

StepPipeline::StepPipeline(const Options& options, LlamaModel& model, const KvCache& cache,
                           DeviceTier& adapters, Handoff* handoff, const Clock& clock)
    : options_(options),
      model_(&model),
      cache_(&cache),
      adapters_(&adapters),
      handoff_(handoff),
      clock_(&clock),
      graphs_(model, cache, options.max_graph_batch) {}

Result<std::unique_ptr<StepPipeline>> StepPipeline::create(const Options& options, Device& device,
                                                           LlamaModel& model, const KvCache& cache,
                                                           DeviceTier& adapters, Handoff* handoff,
                                                           const Clock& clock) {
  const ModelLimits& limits = model.limits();
  const auto sequences = std::min(options.max_num_seqs, limits.max_rows);
  Options cut = options;
  cut.max_graph_batch = std::min(options.max_graph_batch, sequences);
  std::unique_ptr<StepPipeline> pipeline(
      new StepPipeline(cut, model, cache, adapters, handoff, clock));
  TANDEM_ASSIGN(pipeline->stream_, device.create_stream("compute"));
  const StepLimits step_limits{limits.max_rows,
                               sequences,
                               limits.max_samples,
                               options.max_page_ids,
                               max_history(limits.max_positions),
                               options.max_num_seqs * options.max_biases};
  TANDEM_ASSIGN(StepBatch batch, StepBatch::create(device, step_limits));
  pipeline->batch_ = std::make_unique<StepBatch>(std::move(batch));
  const std::size_t bytes = static_cast<std::size_t>(limits.max_samples) * sizeof(SampledToken);
  TANDEM_ASSIGN(pipeline->sampled_, device.allocate(bytes, "sampled tokens"));
  for (Step& step : pipeline->steps_) {
    TANDEM_ASSIGN(step.sampled, device.allocate_pinned(bytes, "sampled tokens"));
    step.done = device.create_event();
  }
  return pipeline;
}

StepPipeline::~StepPipeline() {
  if (stream_ != nullptr) (void)stream_->synchronize();  // its failures are nobody's any more
}

Status StepPipeline::tune() {
  const TimePoint begin = clock_->now();
  TANDEM_TRY(model_->tune(*stream_));
  log::info("products measured in {:.2f} s", seconds_between(begin, clock_->now()));
  return {};
}

Status StepPipeline::record_graphs(std::int32_t max_rank) {
  const TimePoint begin = clock_->now();
  TANDEM_TRY(graphs_.record_all(*stream_, *batch_, adapters_->table(), max_rank));
  TANDEM_TRY(stream_->synchronize());
  if (graphs_.num_recorded() > 0) {
    log::info("{} decode steps recorded in {:.1f} s", graphs_.num_recorded(),
              seconds_between(begin, clock_->now()));
  }
  return {};
}

void StepPipeline::enqueue(std::span<const ScheduledSequence> plan) {
  TANDEM_CHECK(!full() && failure_.ok() && !plan.empty(), "{} steps under way", in_flight_);
  Step& step = steps_[next_];
  step.begun = clock_->now();
  if (in_flight_ > 0 && !steps_[1 - next_].done->passed()) seen_busy_ = step.begun;
  if (handoff_ != nullptr) handoff_->mend(*stream_);
  const bool placeholders = fill(plan, step);
  plan_handoff(step);
  const bool hands_over = !step.handoff.groups.empty();
  // Recordings know nothing of loads under way: such a step runs as it is.
  const bool recorded = pending_.empty() && !hands_over && graphs_.pad(*batch_);
  step.gap_seconds = gap_before_now();
  const TimePoint launched = clock_->now();  // an idle device begins with the first kernel

  adapters_->step_begins(*stream_);
  const StepInput input = batch_->upload(*stream_);
  auto* const sampled = reinterpret_cast<SampledToken*>(sampled_.data());
  if (placeholders) {
    stream_->resolve_tokens({const_cast<std::int32_t*>(input.ids), input.num_rows, sampled});
    if (input.num_history > 0) {
      stream_->resolve_tokens(
          {const_cast<std::int32_t*>(input.history), input.num_history, sampled});
    }
  }
  step.status = Status();
  if (recorded) {
    step.status = graphs_.launch(*stream_, input, adapters_->table());
  } else {
    AdapterTable table = adapters_->table();
    table.pending = pending_;
    if (hands_over) handoff_->publish(input, *adapters_, step.handoff);
    model_->forward(*stream_, input, *cache_, table, hands_over ? &step.handoff.device : nullptr);
    if (hands_over) handoff_->copy_back(*stream_, step.handoff);
  }
  if (input.num_samples > 0) {
    model_->sample(*stream_, input, sampled);
    stream_->copy_to_host(step.sampled.data(), sampled,
                          static_cast<std::size_t>(input.num_samples) * sizeof(SampledToken));
  }
  stream_->record(*step.done);
  adapters_->step_enqueued(*stream_);
  forecast(step, launched);
  seen_busy_ = clock_->now();
  next_ = 1 - next_;
  ++in_flight_;
}

bool StepPipeline::fill(std::span<const ScheduledSequence> plan, Step& step) {
  batch_->clear();
  step.entries.clear();
  cold_.clear();
  bool placeholders = false;
  for (const auto& [sequence, num_tokens] : plan) {
    placeholders |= sequence->pending > 0;
    const std::span<const TokenId> tokens(sequence->tokens.data() + sequence->computed,
                                          static_cast<std::size_t>(num_tokens));
    const AdapterLease& adapter = sequence->context->adapter;
    if (adapter != nullptr && adapter->residency() == Residency::loading) {
      const auto known = std::find_if(cold_.begin(), cold_.end(), [&](const AdapterRows& each) {
        return each.adapter == adapter;
      });
      if (known == cold_.end()) {
        cold_.push_back({adapter, num_tokens});
      } else {
        known->rows += num_tokens;
      }
    }
    const std::int32_t first_row = batch_->add_sequence(
        tokens, sequence->computed, sequence->table.pages(), cache_->page_tokens(),
        adapter == nullptr ? AdapterSlot{} : adapter->slot());
    StepEntry entry{sequence, add_sampling_rows(*sequence, num_tokens, first_row,
                                                model_->config().eos_token_ids, *batch_)};
    entry.replays = sequence->replays;
    if (entry.samples.next_token) {
      entry.next_token = static_cast<std::int64_t>(sequence->tokens.size());
    }
    sequence->advance(num_tokens, entry.samples.prompt_logprobs,
                      entry.samples.first + entry.samples.prompt_logprobs);
    ++sequence->steps_in_flight;
    step.entries.push_back(entry);
  }
  return placeholders;
}

// What is not handed over is waited for, layer by layer.
void StepPipeline::plan_handoff(Step& step) {
  step.handoff.groups.clear();
  if (handoff_ != nullptr && !cold_.empty()) {
    handoff_->plan(cold_, batch_->num_rows(), next_step(), *adapters_, step.handoff);
    batch_->set_cold(handoff_->cold_slots(step.handoff));
  }
  pending_.clear();
  for (const AdapterRows& each : cold_) {
    const auto& groups = step.handoff.groups;
    const bool handed = std::any_of(groups.begin(), groups.end(), [&](const auto& group) {
      return group.adapter == each.adapter;
    });
    if (!handed) adapters_->add_pending(*each.adapter, pending_);
  }
  cold_.clear();  // holds on to nobody
}

void StepPipeline::forecast(const Step& step, TimePoint launched) {
  if (handoff_ == nullptr) return;
  const double model_s = handoff_->step_time(batch_->num_rows());
  if (!step.handoff.groups.empty()) {
    forecast_.add_planned(launched, step.handoff.planned_s);
  } else if (!pending_.empty()) {  // nobody knows how long it waits
    forecast_.add_planned(launched, model_s);
  } else {
    forecast_.add(launched, model_s);
  }
}

// The device's idle time between the step before and this one, at most: it is known to have been
// busy when last looked at.
double StepPipeline::gap_before_now() {
  const TimePoint now = clock_->now();
  if (in_flight_ == 0) return idle_since_ ? seconds_between(*idle_since_, now) : 0;
  return steps_[1 - next_].done->passed() ? seconds_between(seen_busy_, now) : 0;
}

FinishedStep StepPipeline::wait() {
  TANDEM_CHECK(in_flight_ > 0, "no step is under way");
  Step& step = steps_[(next_ + steps_.size() - in_flight_) % steps_.size()];
  FinishedStep result;
  step.done->synchronize();
  if (failure_.ok() && stream_->failed()) failure_ = stream_->synchronize();
  --in_flight_;
  const TimePoint end = clock_->now();
  result.status = failure_.ok() ? step.status : failure_;
  result.entries = step.entries;
  result.samples = reinterpret_cast<const SampledToken*>(step.sampled.data());
  result.seconds = seconds_between(std::max(step.begun, last_end_), end);
  result.gap_seconds = step.gap_seconds;
  if (handoff_ != nullptr) {
    result.handoff = handoff_->end(step.handoff, !result.status.ok(), result.seconds);
    forecast_.end_oldest(end, result.status.ok());
  }
  last_end_ = end;
  seen_busy_ = end;
  if (in_flight_ == 0) {
    idle_since_ = end;
    failure_ = Status();
  }
  return result;
}

}  // namespace tandem
