#include "engine/handoff/handoff_planner.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "engine/handoff/handoff_jobs.h"
#include "engine/handoff/mailboxes.h"
#include "engine/model/step/steps_in_flight.h"
#include "engine/profile/layer_load.h"
#include "shm/mailbox.h"

namespace tandem {

namespace {

// A part of a load.
struct Expected {
  TimePoint time;
  const Event* event;  // null: not on the stream yet
};

struct Progress {
  TimePoint here = TimePoint::min();  // parts that are expected by then have arrived
  // How late the load is: a missing part that is overdue delays all parts behind it by as much.
  // Below 0: parts have arrived early, and those behind them will, too.
  Duration late{};
};

// The events of a load pass in the order in which its pieces were enqueued, which is the order of
// their expected times, so the search asks few events.
Progress progress_of(std::vector<Expected>& parts, TimePoint now) {
  std::ranges::stable_sort(parts, {}, &Expected::time);
  const auto missing = std::ranges::partition_point(
      parts, [](const Expected& part) { return part.event != nullptr && part.event->passed(); });
  Progress progress;
  if (missing != parts.begin()) {
    progress.here = (missing - 1)->time;
    progress.late = std::min(progress.late, now - progress.here);
  }
  if (missing != parts.end()) progress.late = std::max(progress.late, now - missing->time);
  return progress;
}

// True if some workers sleep and others are awake.
bool some_sleep(std::span<const MailboxWorkers> workers) {
  const auto sleep = [](const MailboxWorkers& each) { return each.asleep != 0; };
  const auto are_awake = [](const MailboxWorkers& each) { return (each.all & ~each.asleep) != 0; };
  return std::ranges::any_of(workers, sleep) && std::ranges::any_of(workers, are_awake);
}

// The awake workers alone.
MailboxWorkers awake_of(const MailboxWorkers& workers) {
  return {.all = workers.all & ~workers.asleep,
          .just_woken_for = workers.awake_just_woken_for,
          .awake_just_woken_for = workers.awake_just_woken_for};
}

// The rows of an adapter go to the workers of one mailbox: that of the arena with its weights. A
// request therefore has the most workers of any mailbox.
void add(const MailboxWorkers& workers, PlanRequest& request) {
  request.workers = std::max(request.workers, std::popcount(workers.all));
  request.workers_awake_in = std::max(request.workers_awake_in, workers.awake_in);
  request.workers_just_woken_for = std::max(request.workers_just_woken_for, workers.just_woken_for);
}

// Adapters with modules outside of the sites that take offers are waited for, layer by layer.
bool is_for_workers(const Adapter& adapter) {
  for (std::size_t site = 0; site < kMaxSites; ++site) {
    if (!takes_offers(static_cast<Site>(site)) && adapter.site_ranks[site] > 0) return false;
  }
  return true;
}

}  // namespace

// An adapter that is still arriving and has rows in the step.
struct HandoffPlanner::Candidate {
  const AdapterRows* cold = nullptr;
  ArrivingAdapter arriving;
  ColdAdapter times;       // arrivals in the past are 0
  HostTier::Place place;   // of the weights; the group goes to the mailbox of this arena
  MailboxWorkers workers;  // none unless times.may_hand_over
  std::int32_t first_row = 0;
};

HandoffPlanner::HandoffPlanner(const ModelSpec& config, std::int32_t num_devices, bool whole_loads,
                               const HandoffOptions& options, const HostTier& host,
                               const HandoffLearner& learner, const Clock& clock)
    : config_(config),
      num_devices_(num_devices),
      whole_loads_(whole_loads),
      max_rows_(options.max_rows),
      num_mailboxes_(static_cast<std::int32_t>(options.groups.size())),
      plan_(options.plan),
      learner_(&learner),
      host_(&host),
      clock_(&clock),
      max_groups_(static_cast<std::int32_t>(
          std::clamp<std::uint64_t>(kNumGroupJobs / kMaxStepsInFlight /
                                        static_cast<std::uint64_t>(std::max(most_offers(), 1)),
                                    1, kMaxColdGroups))) {}

std::int32_t HandoffPlanner::most_offers() const {
  return static_cast<std::int32_t>(config_.num_layers() *
                                   static_cast<std::int64_t>(config_.modules.num_sites()));
}

PlanRequest HandoffPlanner::request_for(std::int32_t rows, double starts_in) const {
  PlanRequest request;
  request.rows = rows;
  request.starts_in = starts_in;
  return request;
}

AdmissionPlan HandoffPlanner::admission(std::span<const AdapterRows> waiting,
                                        std::span<const AdapterRows> loads, std::int32_t rows,
                                        double starts_in, std::span<const MailboxWorkers> workers,
                                        const LoadQueue& under_way) const {
  const TimePoint now = clock_->now();
  PlanRequest request = request_for(rows, starts_in);
  request.link_busy_for = std::max(0.0, seconds_between(now, under_way.link().free_at()));
  for (const MailboxWorkers& each : workers) add(each, request);
  request.max_cpu_rows = max_rows_ * num_mailboxes_;
  const auto add_adapter = [&](const AdapterRows& each) {
    ColdAdapter& adapter = request.adapters.emplace_back();
    if (const auto arriving = under_way.in_flight().arriving(*each.adapter);
        arriving && !arriving->arrivals.empty()) {
      adapter = times_of(each, *arriving, now);
    } else {
      adapter.host_arrives = under_way.in_flight().unread(*each.adapter);
    }
    adapter.rows = each.rows;
    if (!is_for_workers(each.adapter->contents())) adapter.may_hand_over = false;
    adapter.layers = layer_loads(config_, each.adapter->contents(), num_devices_);
    if (each.adapter->residency() == Residency::resident) {  // it waits only for its step
      adapter.a_arrives.assign(adapter.layers.size(), 0);
      adapter.b_arrives = adapter.a_arrives;
      adapter.host_arrives.clear();
    }
    request.rows += each.rows;
  };
  for (const AdapterRows& each : waiting) add_adapter(each);
  for (const AdapterRows& each : loads) add_adapter(each);
  // Steps that an admission avoids are never measured. Every so often the prediction counts alone,
  // as a choice that was slow once would otherwise be avoided for good.
  constexpr std::uint64_t kAtTheirWordIn = 64;
  const bool at_their_word = learner_->memory().observed() % kAtTheirWordIn == kAtTheirWordIn - 1;
  const auto plan_all = [&] {
    return plan_admission(
        learner_->costs(), request, [&](const CostModel&, const PlanRequest& step) {
          StepChoice choice = plan_step(step, {});
          if (at_their_word) {
            choice.ends = std::max(0.0, step.starts_in) + step_seconds(step, choice.plan);
          }
          return choice;
        });
  };
  AdmissionPlan plan = plan_all();
  // plan() compares the same two, and the loads have to travel in the order that suits its plan.
  if (some_sleep(workers)) {
    request.workers = 0;
    request.workers_awake_in = request.workers_just_woken_for = 0;
    for (const MailboxWorkers& each : workers) add(awake_of(each), request);
    AdmissionPlan at_once = plan_all();
    if (at_once.hands_over && at_once.sum_of_ends() < plan.sum_of_ends()) plan = std::move(at_once);
  }
  // Waking workers would disturb the threads that read adapters.
  plan.may_hand_over = plan.may_hand_over && host_->cores().to_read() <= 0;
  const auto before = static_cast<std::int32_t>(waiting.size());
  std::erase_if(plan.order, [&](const LoadPiece& piece) { return piece.adapter < before; });
  for (LoadPiece& piece : plan.order) piece.adapter -= before;
  return plan;
}

// The expected arrival times of an adapter, from the state of its load.
ColdAdapter HandoffPlanner::times_of(const AdapterRows& cold, const ArrivingAdapter& arriving,
                                     TimePoint now) const {
  const std::size_t layers = arriving.layers.size();
  std::vector<Expected> whole, b_alone;
  for (std::size_t l = 0; l < layers; ++l) {
    const LayerArrival& arrival = arriving.arrivals[l];
    whole.push_back({std::max(arrival.a, arrival.b), arriving.layers[l].get()});
    if (arrival.b < arrival.a) b_alone.push_back({arrival.b, arriving.b_parts[l].get()});
  }
  const Progress progress = progress_of(whole, now);
  const Progress b_progress = progress_of(b_alone, now);
  const Duration late = progress.late != Duration{} ? progress.late : b_progress.late;
  const auto in = [&](TimePoint time, bool passed) {
    return passed ? 0.0 : std::max(1e-6, seconds_between(now, time + late));
  };
  ColdAdapter times;
  times.rows = cold.rows;
  times.layers = layer_loads(config_, cold.adapter->contents(), num_devices_);
  times.a_arrives.resize(layers);
  times.b_arrives.resize(layers);
  const TimePoint b_here = std::max(progress.here, b_progress.here);
  for (std::size_t l = 0; l < layers; ++l) {
    const LayerArrival& arrival = arriving.arrivals[l];
    times.a_arrives[l] = in(arrival.a, std::max(arrival.a, arrival.b) <= progress.here);
    times.b_arrives[l] = in(arrival.b, arrival.b <= b_here);
  }
  // The load queue used the reading's progress at the time of the order; this is its progress now.
  if (arriving.reading != nullptr) times.host_arrives = arriving.reading->seconds_left();
  put_off_unread(learner_->costs(), times);
  return times;
}

// Candidates with few rows come first, as in the planner.
std::vector<HandoffPlanner::Candidate> HandoffPlanner::choose(
    std::span<const AdapterRows> cold, std::span<const MailboxWorkers> workers,
    const LoadQueue& under_way) const {
  const TimePoint now = clock_->now();
  std::vector<Candidate> candidates;
  for (const AdapterRows& each : cold) {
    std::optional<ArrivingAdapter> arriving = under_way.in_flight().arriving(*each.adapter);
    if (!arriving) continue;
    Candidate& candidate = candidates.emplace_back();
    candidate.cold = &each;
    candidate.times = times_of(each, *arriving, now);
    candidate.times.may_hand_over = false;
    candidate.place = host_->place_of(arriving->source.get());
    candidate.arriving = *std::move(arriving);
  }
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.cold->rows < b.cold->rows; });
  std::vector<std::int32_t> room;
  for (const MailboxWorkers& each : workers) room.push_back(each.all == 0 ? 0 : max_rows_);
  std::int32_t groups = 0;
  for (Candidate& candidate : candidates) {
    const std::size_t box = candidate.place.arena;
    if (groups == max_groups_) break;
    if (candidate.cold->rows > room[box] || !is_for_workers(candidate.cold->adapter->contents())) {
      continue;
    }
    candidate.times.may_hand_over = true;
    candidate.workers = workers[box];
    candidate.first_row = max_rows_ - room[box];
    room[box] -= candidate.cold->rows;
    ++groups;
  }
  return candidates;
}

// Adapters whose mailbox has no worker awake are waited for.
void HandoffPlanner::leave_out_sleepers(std::span<Candidate> candidates) {
  for (Candidate& candidate : candidates) {
    candidate.workers = awake_of(candidate.workers);
    candidate.times.may_hand_over = candidate.workers.all != 0;
  }
}

PlanRequest HandoffPlanner::request_for_step(std::span<const Candidate> candidates,
                                             std::int32_t step_rows, double starts_in) const {
  PlanRequest request = request_for(step_rows, starts_in);
  for (const Candidate& candidate : candidates) {
    add(candidate.workers, request);
    request.adapters.push_back(candidate.times);
  }
  request.max_cpu_rows = max_rows_ * num_mailboxes_;
  return request;
}

StepChoice HandoffPlanner::choose_layers(std::span<const Candidate> candidates,
                                         const PlanRequest& request,
                                         const std::optional<WayChoice>& admitted) const {
  if (!whole_loads_) return plan_step(request, admitted);
  HandoffPlan plan;
  for (const Candidate& candidate : candidates) {
    plan.choices.emplace_back(candidate.times.layers.size(),
                              candidate.times.may_hand_over ? LayerChoice::cpu : LayerChoice::wait);
  }
  predict(learner_->costs(), request, plan);
  return {std::move(plan)};
}

StepChoice HandoffPlanner::plan_step(const PlanRequest& request,
                                     const std::optional<WayChoice>& admitted) const {
  const CostModel& costs = learner_->costs();
  if (plan_ != nullptr) {
    HandoffPlan given = plan_(costs, request);
    const double ends = std::max(0.0, request.starts_in) + step_seconds(request, given);
    return {std::move(given), {.situation = PlanSituation::of(costs, request)}, ends};
  }
  if (admitted && admitted->situation == PlanSituation::of(costs, request)) {
    return plan_as_chosen(costs, request, *admitted);
  }
  return choose_step(costs, request, learner_->memory());
}

void HandoffPlanner::plan(std::span<const AdapterRows> cold, std::int32_t step_rows,
                          double starts_in, std::span<const MailboxWorkers> workers,
                          const LoadQueue& under_way, const std::optional<WayChoice>& admitted,
                          HandoffStep& step) const {
  step.groups.clear();
  step.num_offers = 0;
  step.planned_s = 0;
  step.chosen = {};
  const auto none = [](const MailboxWorkers& each) { return each.all == 0; };
  if (cold.empty() || std::ranges::all_of(workers, none)) return;
  std::vector<Candidate> candidates = choose(cold, workers, under_way);
  if (std::none_of(candidates.begin(), candidates.end(),
                   [](const Candidate& each) { return each.times.may_hand_over; })) {
    return;
  }
  const PlanRequest request = request_for_step(candidates, step_rows, starts_in);
  StepChoice choice = choose_layers(candidates, request, admitted);
  if (some_sleep(workers) && !choice.chosen.given_up) {
    std::vector<Candidate> awake = candidates;
    leave_out_sleepers(awake);
    const PlanRequest at_once = request_for_step(awake, step_rows, starts_in);
    StepChoice sooner = choose_layers(awake, at_once, admitted);
    // Only the predictions are compared: measured times may be known for one number of workers and
    // not for the other.
    if (hands_over(sooner.plan) &&
        step_seconds(at_once, sooner.plan) < step_seconds(request, choice.plan)) {
      candidates = std::move(awake);
      choice = std::move(sooner);
    }
  }
  const HandoffPlan& plan = choice.plan;
  lay_out(candidates, plan, step);
  step.chosen = choice.chosen;
  if (step.num_offers == 0) step.chosen.way = PlanWay::wait;
  step.is_chosen = plan_ == nullptr && !whole_loads_;
  step.rows = step_rows;
  step.layer_s = learner_->costs().layer_time(step_rows);
  double begin = std::max(0.0, starts_in);
  step.starts_in = begin;
  step.planned_s = plan.layer_ends.back() - begin;
  step.planned_layers.clear();
  for (const double end : plan.layer_ends) {
    step.planned_layers.push_back(end - std::exchange(begin, end));
  }
  if (step.num_offers == 0) step.groups.clear();
}

HandoffOptions::Planner HandoffPlanner::plan_by(HandoffOptions::Planner planner) {
  return std::exchange(plan_, std::move(planner));
}

// Adds the group of `candidate`, with the part of its jobs that is the same in every layer.
void HandoffPlanner::add_group(const Candidate& candidate, HandoffStep& step) const {
  HandoffStep::Group& group = step.groups.emplace_back();
  group.adapter = candidate.cold->adapter;
  group.bytes = candidate.arriving.source;
  group.slot = candidate.arriving.slot;
  group.generation = candidate.arriving.generation;
  group.job.adapter = &group.adapter->contents();
  group.job.arena_offset = candidate.place.offset;
  if (const AdapterReading* const reading = candidate.arriving.reading; reading != nullptr) {
    const auto* words = reinterpret_cast<const std::byte*>(reading->word(0));
    group.job.words_offset =
        candidate.place.offset + static_cast<std::uint64_t>(words - group.bytes.get());
    group.job.present_value = reading->generation();
  }
  group.job.mailbox = static_cast<std::int32_t>(candidate.place.arena);
  group.job.workers = candidate.workers.all;
  group.job.rows = static_cast<std::uint32_t>(candidate.cold->rows);
  group.job.first_row = static_cast<std::uint32_t>(candidate.first_row);
  group.job.split = candidate.cold->rows <=
                            learner_->costs().tokens_per_core * std::popcount(candidate.workers.all)
                        ? JobSplit::columns
                        : JobSplit::tokens;
}

// Makes a group of every candidate that may be handed over, and a wait for each of its layers that
// the plan does not hand over.
void HandoffPlanner::lay_out(std::span<const Candidate> candidates, const HandoffPlan& plan,
                             HandoffStep& step) const {
  const auto layers = static_cast<std::size_t>(config_.num_layers());
  const ModuleTable& modules = config_.modules;
  step.layers.assign(layers, {});
  step.num_sites = modules.num_sites();
  step.waits.clear();
  step.unread.assign(layers, false);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    if (!candidate.times.may_hand_over) continue;
    const Adapter& adapter = candidate.cold->adapter->contents();
    const std::size_t group = step.groups.size();
    const std::uint64_t bit = mask_of(group);
    add_group(candidate, step);
    for (std::size_t l = 0; l < layers; ++l) {
      LayerHandoff& layer = step.layers[l];
      bool any = false;
      for (std::size_t m = 0; m < modules.size(); ++m) {
        if (adapter.layers[l][m].rank == 0) continue;
        const Site site = modules[m].site;
        layer.sites[static_cast<std::size_t>(site)].adapted[m - modules.first_of(site)] |= bit;
        any = true;
      }
      const double a = candidate.times.a_arrives[l];
      const double b = candidate.times.b_arrives[l];
      if (!any || (!whole_loads_ && a <= 0 && b <= 0)) continue;  // nothing is missing
      LayerChoice choice = plan.choices[i][l];
      const auto number = static_cast<std::int64_t>(l);
      const LayerArrival& arrival = candidate.arriving.arrivals[l];
      const bool b_alone = candidate.arriving.b_parts[l] != nullptr || arrival.b < arrival.a;
      if (choice == LayerChoice::cpu_xa && !b_alone) choice = LayerChoice::cpu;
      if (choice == LayerChoice::wait) {
        step.waits.push_back({group, number, PieceKind::layer, std::max(a, b)});
        continue;
      }
      const std::vector<double>& read = candidate.times.host_arrives;
      if (!read.empty() && read[l] > 0) step.unread[l] = true;
      if (choice == LayerChoice::cpu_xa && b > 0) {
        step.waits.push_back({group, number, PieceKind::b, b});
      }
      for (std::size_t s = 0; s < step.num_sites; ++s) {
        if (!adapts(adapter, modules, number, static_cast<Site>(s))) continue;
        SiteHandoff& site = layer.sites[s];
        (choice == LayerChoice::cpu ? site.cpu_groups : site.xa_groups) |= bit;
      }
    }
  }
  for (const LayerHandoff& layer : step.layers) {
    for (const SiteHandoff& site : layer.sites) step.num_offers += site.offered() ? 1 : 0;
  }
}

}  // namespace tandem
