#include "engine/executor/step_pipeline.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log/log.h"
#include "base/trace/tracer.h"
#include "engine/handoff/handoff_trace.h"

namespace tandem {
namespace {

template <typename T>
std::span<const T> part(const std::vector<T>& list, StepPlan::Range range) {
  return std::span(list).subspan(static_cast<std::size_t>(range.first),
                                 static_cast<std::size_t>(range.count));
}

std::size_t bytes_of(const TensorView& view) {
  return static_cast<std::size_t>(view.num_elements()) * size_of(view.dtype);
}

bool has_placeholders(const std::vector<TokenId>& tokens) {
  return std::any_of(tokens.begin(), tokens.end(), [](TokenId token) { return token < 0; });
}

}  // namespace

StepPipeline::StepPipeline(const Options& options, Model& model, const KvCache& cache,
                           DeviceLane adapters, Handoff* handoff, const Clock& clock)
    : options_(options),
      model_(&model),
      cache_(&cache),
      adapters_(adapters),
      handoff_(handoff),
      clock_(&clock),
      graphs_(model, cache, options.max_graph_batch),
      waits_(adapters.loads(), model.spec().num_layers()),
      times_(options.overlap && options.just_in_time, clock) {}

Result<std::unique_ptr<StepPipeline>> StepPipeline::create(const Options& options, Device& device,
                                                           Model& model, const KvCache& cache,
                                                           DeviceLane adapters, Handoff* handoff,
                                                           const Clock& clock) {
  std::unique_ptr<StepPipeline> pipeline(
      new StepPipeline(options, model, cache, adapters, handoff, clock));
  TANDEM_ASSIGN(pipeline->stream_, device.create_stream("compute"));
  StepLimits limits = options.limits;
  if (handoff != nullptr) {
    limits.max_offers = static_cast<std::int32_t>(model.spec().num_layers()) *
                        static_cast<std::int32_t>(model.spec().modules.num_sites());
  }
  TANDEM_ASSIGN(StepBatch batch, StepBatch::create(device, limits));
  pipeline->batch_ = std::make_unique<StepBatch>(std::move(batch));
  const std::size_t bytes =
      static_cast<std::size_t>(options.limits.max_samples) * sizeof(SampledToken);
  TANDEM_ASSIGN(pipeline->sampled_, device.allocate(bytes, "sampled tokens"));
  const auto mask_bytes = static_cast<std::size_t>(
      options.limits.max_sequences *
      mask_words(model.spec().vocab_size + model.limits().max_added_tokens) * 4);
  TANDEM_ASSIGN(pipeline->masks_, device.allocate_pinned(mask_bytes, "masks of tokens"));
  TANDEM_ASSIGN(pipeline->device_masks_, device.allocate(mask_bytes, "masks of tokens"));
  if (handoff != nullptr)
    adapters.loads().link().set_factor(handoff->learner().costs().factors.link);
  for (Step& step : pipeline->steps_) {
    TANDEM_ASSIGN(step.sampled, device.allocate_pinned(bytes, "sampled tokens"));
    if (adapters.rank() == 0) {
      const TensorView states = model.states(options.limits.max_samples);
      TANDEM_ASSIGN(step.states, device.allocate_pinned(bytes_of(states), "states of rows"));
    }
    const bool timed = trace::on() || (handoff != nullptr && adapters.rank() == 0);
    step.done = timed ? device.create_timed_event() : device.create_event();
    if (timed) step.begins = device.create_timed_event();
  }
  if (options.has_other_ranks) TANDEM_TRY(pipeline->stream_->prepare());
  return pipeline;
}

StepPipeline::~StepPipeline() {
  if (stream_ != nullptr) (void)wait_for_all();  // its failures no longer matter
}

Status StepPipeline::tune() {
  const TimePoint begin = clock_->now();
  TANDEM_TRY(model_->tune(*stream_));
  log::info("matrix products timed in {:.2f} s", seconds_between(begin, clock_->now()));
  return {};
}

Status StepPipeline::record_graphs(std::int32_t max_rank) {
  const TimePoint begin = clock_->now();
  TANDEM_TRY(graphs_.record_usual(*stream_, *batch_, adapters_.table(), max_rank, halves_));
  TANDEM_TRY(stream_->synchronize());
  if (graphs_.num_recorded() > 0) {
    log::info("graphs of {} decode steps recorded in {:.1f} s", graphs_.num_recorded(),
              seconds_between(begin, clock_->now()));
  }
  return {};
}

const HandoffStep* StepPipeline::plan(const StepPlan& plan, const HandoffStep* first) {
  TANDEM_CHECK(!full() && !open_ && failure_.ok() && !plan.entries.empty(), "{} steps under way",
               in_flight_);
  TANDEM_CHECK(plan.num_masks <= options_.limits.max_sequences, "{} masks", plan.num_masks);
  Step& step = steps_[next_];
  step.begun = clock_->now();
  (void)look_for_gap();
  if (handoff_ != nullptr && leads()) handoff_->mend(*stream_);
  fill(plan, step);
  plan_handoff(first);
  return planned_ ? &planned_->step() : nullptr;
}

bool StepPipeline::launch(const StepPlan& plan) {
  Step& step = steps_[next_];
  const bool hands_over = planned_ && !planned_->step().groups.empty();
  const bool waits = !waits_.empty();
  if (halves_.any() && batch_->decodes_only()) {
    batch_->halve(halves_.choose(batch_->num_rows(), batch_->max_rank(), batch_->site_ranks()));
  }
  // Graphs cannot wait for loads in flight.
  const bool recorded = !waits && !hands_over && graphs_.pad(*batch_);
  step.gap_seconds = look_for_gap();
  step.launched = clock_->now();  // an idle device begins with the first kernel

  step.is_timed = step.begins != nullptr && (trace::on() || !recorded);
  if (step.is_timed) stream_->record(*step.begins);
  adapters_.step_begins(*stream_);
  const StepInput input = batch_->upload(*stream_);
  auto* const sampled = reinterpret_cast<SampledToken*>(sampled_.data());
  if (has_placeholders(plan.tokens)) {
    stream_->resolve_tokens({const_cast<std::int32_t*>(input.ids), input.num_rows, sampled});
  }
  if (has_placeholders(plan.history)) {
    stream_->resolve_tokens({const_cast<std::int32_t*>(input.history), input.num_history, sampled});
  }
  step.status = Status();
  if (planned_) {
    step.handoff = std::move(*planned_).offer(input, adapters_.loads().stream().slots());
    planned_.reset();
  }
  if (recorded) {
    step.status = graphs_.launch(*stream_, input, adapters_.table());
    // A graph is launched as a whole when the call returns.
    step.gap_seconds = look_for_gap();
    step.launched = clock_->now();
  } else {
    AdapterTable table = adapters_.table();
    if (waits) table.waits = &waits_;
    model_->forward(*stream_, input, *cache_, table,
                    step.handoff ? step.handoff->device() : nullptr);
    if (hands_over) step.handoff->copy_back(*stream_);
    waits_.clear();  // releases the adapters
  }
  adapters_.step_ends(*stream_);
  step.awaited_masks = plan.num_masks > 0;
  step.num_rows = batch_->num_rows();
  step.kind.reset();
  if (!waits && !hands_over) step.kind = {batch_->num_rows(), recorded};
  const double model_s =
      handoff_ != nullptr && leads() ? handoff_->learner().step_time(step.num_rows) : 0;
  times_.enqueued(step.kind, step.launched, step.gap_seconds, model_s,
                  step.handoff ? step.handoff->step().planned_s : 0);
  next_ = (next_ + 1) % steps_.size();
  ++in_flight_;
  if (plan.num_masks > 0) {
    open_ = {input, plan.num_masks};
  } else {
    enqueue_samples(step, input, nullptr);
  }
  return step.status.ok();
}

std::span<std::uint32_t> StepPipeline::masks() {
  if (!open_) return {};
  const std::int64_t words = mask_words(model_->logit_columns(open_->input));
  return {reinterpret_cast<std::uint32_t*>(masks_.data()),
          static_cast<std::size_t>(open_->num_masks * words)};
}

void StepPipeline::sample() {
  TANDEM_CHECK(open_.has_value(), "no step awaits masks");
  const std::span<const std::uint32_t> given = masks();
  stream_->upload(device_masks_.data(), masks_.data(), given.size_bytes());
  const Open open = *std::exchange(open_, std::nullopt);
  enqueue_samples(steps_[index_before(1)], open.input,
                  reinterpret_cast<const std::uint32_t*>(device_masks_.data()));
}

void StepPipeline::enqueue_samples(Step& step, const StepInput& input, const std::uint32_t* masks) {
  if (input.num_samples > 0) {
    auto* const sampled = reinterpret_cast<SampledToken*>(sampled_.data());
    model_->sample(*stream_, input, sampled, masks);
    stream_->copy_to_host(step.sampled.data(), sampled,
                          static_cast<std::size_t>(input.num_samples) * sizeof(SampledToken));
  }
  if (step.wants_states) {
    const TensorView states = model_->states(input.num_samples);
    stream_->copy_to_host(step.states.data(), states.data, bytes_of(states));
  }
  stream_->record(*step.done);
  times_.saw_work();
}

// For a step whose masks will never be given, as the step before it has failed.
void StepPipeline::abandon_open(Step& step) {
  open_.reset();
  if (step.status.ok()) step.status = Status(StatusCode::internal, "its masks were never given");
  stream_->record(*step.done);
}

void StepPipeline::fill(const StepPlan& plan, Step& step) {
  batch_->clear();
  step.entries.clear();
  step.num_samples = plan.samples.size();
  step.wants_states = leads() && std::ranges::any_of(plan.samples, &StepPlan::Sample::wants_state);
  cold_.clear();
  for (const StepPlan::Entry& entry : plan.entries) {
    if (entry.adapter.slot.valid()) {
      note_cold(entry.adapter.slot, entry.tokens.count - entry.first_adapted);
    }
    const std::int32_t first_row = batch_->add_sequence(
        part(plan.tokens, entry.tokens), entry.start, part(plan.pages, entry.pages),
        cache_->page_tokens(), entry.adapter, entry.rotary_length, entry.first_adapted);
    for (const StepPlan::Sample& sample : part(plan.samples, entry.samples)) {
      const SampleRow& how = sample.how;
      batch_->add_sample(first_row + sample.row, how,
                         part(plan.history, {how.history, how.history_len}),
                         part(plan.biases, {how.bias, how.num_biases}));
    }
    step.entries.push_back(entry.id);
  }
}

void StepPipeline::note_cold(SlotId slot, std::int32_t rows) {
  AdapterLease adapter = adapters_.loads().in_flight().arriving_in(slot);
  if (adapter == nullptr) return;
  const auto known = std::find_if(cold_.begin(), cold_.end(),
                                  [&](const AdapterRows& each) { return each.adapter == adapter; });
  if (known == cold_.end()) {
    cold_.push_back({std::move(adapter), rows});
  } else {
    known->rows += rows;
  }
}

// Layers that are not handed over are waited for.
void StepPipeline::plan_handoff(const HandoffStep* first) {
  planned_.reset();
  if (handoff_ != nullptr && first != nullptr) {
    planned_ = handoff_->follow_step(adapters_.rank(), *first);
  } else if (handoff_ != nullptr && leads() && !cold_.empty()) {
    planned_ =
        handoff_->plan_step(cold_, batch_->num_rows(), times_.next_starts_in(), adapters_.loads());
  }
  waits_.clear();
  std::span<const HandoffStep::Group> groups;
  if (planned_ && !planned_->step().groups.empty()) {
    groups = planned_->step().groups;
    batch_->set_cold(planned_->cold_slots(), planned_->descriptors());
    for (const HandoffStep::Wait& wait : planned_->step().waits) {
      waits_.add(groups[wait.group].adapter, wait.layer, wait.kind);
    }
  }
  for (const AdapterRows& each : cold_) {
    const bool handed = std::any_of(groups.begin(), groups.end(), [&](const auto& group) {
      return group.adapter == each.adapter;
    });
    if (!handed) waits_.add_all(each.adapter);
  }
  cold_.clear();  // releases the adapters
}

double StepPipeline::look_for_gap() {
  return times_.gap(in_flight_ > 0, in_flight_ > 0 && !step_before(1).done->passed());
}

bool StepPipeline::oldest_has_ended() {
  if (oldest().done->passed()) return true;
  times_.saw_work();
  return false;
}

Status StepPipeline::wait_and_tell(OtherRanks& others) {
  const Step& step = oldest();
  const std::size_t groups = step.num_groups();
  const std::uint32_t* const timed_out = groups > 0 ? step.handoff->step().timed_out : nullptr;
  Status status = wait().status;
  if (!status.ok()) others.failed = true;
  for (std::size_t g = 0; g < groups && status.ok(); ++g) {
    if (timed_out[g] != 0) others.timed_out |= mask_of(g);
  }
  return status;
}

StepResult StepPipeline::wait(const OtherRanks& others) {
  TANDEM_CHECK(in_flight_ > 0, "no step is under way");
  Step& step = steps_[index_before(in_flight_)];
  if (open_ && in_flight_ == 1) abandon_open(step);
  StepResult result;
  step.done->synchronize();
  if (failure_.ok() && stream_->failed()) failure_ = stream_->synchronize();
  --in_flight_;
  const TimePoint end = clock_->now();
  ++num_ended_;
  result.status = failure_.ok() ? step.status : failure_;
  result.entries = step.entries;
  if (result.status.ok()) {
    result.samples = {reinterpret_cast<const SampledToken*>(step.sampled.data()), step.num_samples};
    if (step.wants_states) {
      result.states = model_->states(static_cast<std::int32_t>(step.num_samples));
      result.states.data = step.states.data();
    }
  }
  result.seconds = seconds_between(std::max(step.begun, times_.last_end()), end);
  result.gap_seconds = step.gap_seconds;
  if (trace::on()) trace_step(step, end);
  if (handoff_ != nullptr && !leads()) {
    step.handoff.reset();
  } else if (handoff_ != nullptr) {
    const double seconds = seconds_of(step, end);
    if (step.handoff) end_handoff(step, others, seconds, end, result);
    if (result.status.ok() && !others.failed) learn(step, seconds);
  }
  times_.ended(end, result.status.ok() && !others.failed, in_flight_ == 0);
  if (in_flight_ == 0) failure_ = Status();
  return result;
}

// A host that is launching the next step sees the end of this one late, by up to a millisecond,
// which would be added to this step and taken from the next. The device's own time is exact.
double StepPipeline::seconds_of(const Step& step, TimePoint end) const {
  const bool is_known = step.is_timed && step.status.ok() && failure_.ok();
  const double seconds = is_known ? step.done->seconds_since(*step.begins) : 0;
  return seconds > 0 ? seconds : seconds_between(std::max(step.launched, times_.last_end()), end);
}

// The span has the device's duration, and ends when the host saw the step end.
void StepPipeline::trace_step(const Step& step, TimePoint end) const noexcept {
  TimePoint begin = std::max(step.launched, times_.last_end());
  if (step.is_timed && step.status.ok()) {
    begin = std::max(begin, end - duration_of(step.done->seconds_since(*step.begins)));
  }
  const bool recorded = step.kind && step.kind->recorded;
  Span span = device_span(recorded ? "recorded step" : "step", SpanTrack::steps, begin, end);
  span.lane = static_cast<std::uint16_t>(adapters_.rank());
  trace::record(span.add("step", static_cast<double>(num_ended_))
                    .add("rows", static_cast<double>(step.num_rows))
                    .add("sequences", static_cast<double>(step.entries.size()))
                    .add("gap_ms", step.gap_seconds * 1e3)
                    .add("cold_adapters", static_cast<double>(step.num_groups())));
}

// Neither graphs, which are faster than any step that hands rows over, nor steps with masks, which
// may have waited for them, measure the layers.
void StepPipeline::learn(const Step& step, double seconds) {
  if (step.kind && !step.kind->recorded && !step.awaited_masks)
    handoff_->learner().observe_step(step.kind->rows, seconds);
  LoadQueue& loads = adapters_.loads();
  if (const auto took = loads.stream().took())
    handoff_->learner().observe_loads(took->model_s, took->seen_s);
  loads.link().set_factor(handoff_->learner().costs().factors.link);
}

Status StepPipeline::wait_for_all() noexcept {
  try {
    return stream_->synchronize();
  } catch (const std::bad_alloc&) {  // from making the message; this shorter one needs no memory
    return Status(StatusCode::fatal, "out of memory");
  }
}

void StepPipeline::drop_all() noexcept {
  planned_.reset();
  for (Step& step : steps_) step.handoff.reset();
  open_.reset();
  times_.clear();
  cold_.clear();
  waits_.clear();
  in_flight_ = 0;
  failure_ = Status();
}

void StepPipeline::end_handoff(Step& step, const OtherRanks& others, double seconds, TimePoint end,
                               StepResult& result) {
  const HandoffStep& handoff = step.handoff->step();
  const bool failed = others.failed || !result.status.ok();
  const bool traced = trace::on() && !failed && !handoff.groups.empty();
  const std::vector<WorkerTime> times =
      traced ? trace_workers(handoff, step.launched, end) : std::vector<WorkerTime>();
  HandoffOutcome outcome = std::move(*step.handoff).finish(failed, others.timed_out, seconds);
  step.handoff.reset();
  result.timed_out = std::move(outcome.timed_out);
  for (const HandoffOutcome::Served& served : outcome.served) {
    StepResult::Served& one = result.served.emplace_back();
    one.slot = served.slot;
    one.cpu_layers = served.cpu_layers;
    if (!traced) continue;
    one.workers_began = times[served.group].begin;
    one.workers_ended = times[served.group].end;
  }
}

}  // namespace tandem
