#include "engine/handoff/handoff.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace tandem {

Handoff::Handoff(const ModelSpec& config, std::size_t num_devices, bool whole_loads,
                 const HandoffOptions& options, const HostTier& host, const Clock& clock)
    : config_(config),
      deadline_us_(options.deadline_us),
      host_(&host),
      all_(options.groups.size(), ~std::uint64_t{0}),
      learner_(config, options.costs, options.lessons, clock),
      planner_(config, static_cast<std::int32_t>(num_devices), whole_loads, options, host, learner_,
               clock),
      cold_starts_(options.cold_starts) {
  for (std::size_t g = 0; g < options.groups.size(); ++g) {
    std::uint64_t& kept = kept_.emplace_back(~std::uint64_t{0});
    if (options.readers.cpus.empty()) continue;
    kept = 0;
    const std::size_t worker_slots =
        std::min<std::size_t>(options.groups[g].cpus.size(), kMaxWorkerSlots);
    for (std::size_t i = options.readers.beside[g]; i < worker_slots; ++i) kept |= mask_of(i);
  }
}

Result<std::unique_ptr<Handoff>> Handoff::create(std::span<const Rank> ranks,
                                                 const ModelSpec& config, DType dtype,
                                                 std::int32_t max_rank, bool whole_loads,
                                                 const HandoffOptions& options,
                                                 const HostTier& host, const Clock& clock) {
  std::unique_ptr<Handoff> handoff(
      new Handoff(config, ranks.size(), whole_loads, options, host, clock));
  for (const Rank& rank : ranks) TANDEM_TRY(handoff->make_device_memory(rank));
  TANDEM_ASSIGN(handoff->mailboxes_,
                Mailboxes::create(*ranks.front().device, ranks.front().communicator, config, dtype,
                                  max_rank, options, host, clock));
  return handoff;
}

Status Handoff::make_device_memory(const Rank& rank) {
  constexpr std::string_view kPurpose = "the handoff's tickets";
  const auto offers = static_cast<std::size_t>(planner_.most_offers());
  const std::size_t bytes =
      offers * (sizeof(std::uint64_t) + kMaxColdGroups * sizeof(std::uint32_t));
  RankMemory& memory = ranks_.emplace_back();
  TANDEM_ASSIGN(memory.results, rank.device->allocate(bytes, kPurpose));
  for (Buffer& results : memory.host_results) {
    TANDEM_ASSIGN(results, rank.device->allocate_pinned(
                               bytes + kMaxColdGroups * sizeof(std::uint32_t), kPurpose));
  }
  if (rank.communicator == nullptr) return {};
  memory.communicator = rank.communicator;
  TANDEM_ASSIGN(memory.shown, rank.communicator->allocate_words(
                                  2 * kMaxColdGroups * sizeof(std::uint32_t), kPurpose));
  return {};
}

AdmissionPlan Handoff::admission(std::span<const AdapterRows> waiting,
                                 std::span<const AdapterRows> loads, std::int32_t rows,
                                 double starts_in, const LoadQueue& under_way) {
  AdmissionPlan plan = planner_.admission(waiting, loads, rows, starts_in,
                                          mailboxes_->workers(undisturbed()), under_way);
  admitted_.clear();
  for (const AdmissionPlan::Step& step : plan.steps) {
    // One step of a situation tries a slower way; the others choose when they begin.
    const auto is_alike = [&](const Admitted& each) {
      return each.chosen.situation == step.chosen.situation;
    };
    if (step.chosen.is_try && std::ranges::any_of(admitted_, is_alike)) continue;
    Admitted& admitted = admitted_.emplace_back();
    admitted.chosen = step.chosen;
    for (const std::int32_t adapter : step.adapters) {
      const auto i = static_cast<std::size_t>(adapter);
      admitted.adapters.emplace_back(
          (i < waiting.size() ? waiting[i] : loads[i - waiting.size()]).adapter);
    }
  }
  return plan;
}

// The choice for the step of exactly these adapters, which begins now, as steps before it have.
std::optional<WayChoice> Handoff::take_admitted(std::span<const AdapterRows> cold) {
  const auto has = [&](const std::weak_ptr<ServedAdapter>& adapter) {
    return std::ranges::find(cold, adapter.lock(), &AdapterRows::adapter) != cold.end();
  };
  const auto found = std::ranges::find_if(admitted_, [&](const Admitted& step) {
    return step.adapters.size() == cold.size() && std::ranges::all_of(step.adapters, has);
  });
  if (found == admitted_.end()) return {};
  const WayChoice chosen = found->chosen;
  admitted_.erase(admitted_.begin(), found + 1);
  return chosen;
}

// The worker slots that may be given jobs, if they are live.
const std::vector<std::uint64_t>& Handoff::undisturbed() const {
  return host_->cores().to_read() > 0 ? kept_ : all_;
}

PlannedHandoff Handoff::plan_step(std::span<const AdapterRows> cold, std::int32_t step_rows,
                                  double starts_in, const LoadQueue& under_way) {
  HandoffStepPtr step(new HandoffStep, AbandonStep{this});
  learner_.note_workers(mailboxes_->workers());
  planner_.plan(cold, step_rows, starts_in, mailboxes_->workers(undisturbed()), under_way,
                take_admitted(cold), *step);
  if (!step->groups.empty()) {
    step->sequence = next_sequence_;
    next_sequence_ += static_cast<std::uint64_t>(step->num_offers);
    step->results_at = next_results_++ % kMaxStepsInFlight;
    place_results(0, *step);
  }
  return {*this, 0, std::move(step)};
}

void Handoff::place_results(std::size_t rank, HandoffStep& step) const {
  step.times = reinterpret_cast<std::uint64_t*>(ranks_[rank].host_results[step.results_at].data());
  step.tickets = reinterpret_cast<std::uint32_t*>(step.times + planner_.most_offers());
  step.timed_out = step.tickets + static_cast<std::size_t>(planner_.most_offers()) * kMaxColdGroups;
}

// Reads no field of `first` that offer() writes at the same time. Weights that have arrived on the
// first rank may still be on their way here, so a rank waits for each layer that is not offered,
// and for B where workers compute x A alone.
PlannedHandoff Handoff::follow_step(std::size_t rank, const HandoffStep& first) {
  HandoffStepPtr made(new HandoffStep, AbandonStep());
  HandoffStep& step = *made;
  step.groups = first.groups;
  if (step.groups.empty()) return {*this, rank, std::move(made)};
  step.layers = first.layers;
  step.num_sites = first.num_sites;
  step.num_offers = first.num_offers;
  step.sequence = first.sequence;
  step.results_at = first.results_at;
  place_results(rank, step);
  for (std::size_t l = 0; l < step.layers.size(); ++l) {
    std::uint64_t offered = 0;
    std::uint64_t xa = 0;
    for (const SiteHandoff& site : step.layers[l].sites) {
      offered |= site.cpu_groups | site.xa_groups;
      xa |= site.xa_groups & ~site.cpu_groups;
    }
    const auto layer = static_cast<std::int64_t>(l);
    for (std::size_t g = 0; g < step.groups.size(); ++g) {
      if ((offered & mask_of(g)) == 0) step.waits.push_back({g, layer, PieceKind::layer, 0});
      if ((xa & mask_of(g)) != 0) step.waits.push_back({g, layer, PieceKind::b, 0});
    }
  }
  return {*this, rank, std::move(made)};
}

void Handoff::close(HandoffStep& step, std::uint64_t broken) noexcept {
  const std::uint64_t next = step.sequence + static_cast<std::uint64_t>(step.num_offers);
  counts_.breaks +=
      static_cast<std::uint64_t>(mailboxes_->step_ended(step.mailboxes(), broken, next));
  host_->cores().step_ended();
  step.begun = false;
}

// Workers take jobs in order, so sequence numbers without a description get an empty job.
void Handoff::abandon(HandoffStep& step) noexcept {
  for (; next_published_ < next_sequence_; ++next_published_) {
    for (std::size_t box = 0; box < mailboxes_->size(); ++box) {
      mailboxes_->publish(box, next_published_, {});
    }
  }
  if (step.begun) close(step, step.mailboxes());
}

void AbandonStep::operator()(HandoffStep* step) const noexcept {
  if (handoff != nullptr) handoff->abandon(*step);
  delete step;
}

}  // namespace tandem
