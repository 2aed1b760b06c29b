#include "engine/handoff/handoff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/log/log.h"
#include "engine/handoff/handoff_jobs.h"
#include "engine/handoff/step_lessons.h"

namespace tandem {
namespace {

// The mailboxes whose workers have groups of the step.
std::uint64_t mailboxes_of(const HandoffStep& step) {
  std::uint64_t used = 0;
  for (const HandoffStep::Group& group : step.groups) {
    used |= mask_of(static_cast<std::size_t>(group.job.mailbox));
  }
  return used;
}

// Calls visit(layer, site, sequence) for each offer of the step, in order.
template <typename Visit>
void for_each_offer(const HandoffStep& step, const Visit& visit) {
  std::uint64_t sequence = step.sequence;
  for (std::size_t layer = 0; layer < step.layers.size(); ++layer) {
    for (std::size_t site = 0; site < kNumSites; ++site) {
      if (step.layers[layer].sites[site].offered()) visit(layer, site, sequence++);
    }
  }
}

}  // namespace

Handoff::Handoff(const ModelSpec& config, std::size_t num_devices, bool whole_loads,
                 const HandoffOptions& options, const HostTier& host, const Clock& clock)
    : config_(config),
      deadline_us_(options.deadline_us),
      host_(&host),
      all_(options.groups.size(), ~std::uint64_t{0}),
      planner_(config, static_cast<std::int32_t>(num_devices), whole_loads, options, host, clock),
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
  TANDEM_ASSIGN(memory.told, rank.device->allocate(bytes, kPurpose));
  for (Buffer& answers : memory.answers) {
    TANDEM_ASSIGN(answers, rank.device->allocate_pinned(
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
                                 double starts_in, const LoadQueue& under_way) const {
  return planner_.admission(waiting, loads, rows, starts_in, mailboxes_->workers(undisturbed()),
                            under_way);
}

// The worker slots that may be given jobs, if they are live.
const std::vector<std::uint64_t>& Handoff::undisturbed() const {
  return host_->cores().to_read() > 0 ? kept_ : all_;
}

void Handoff::plan(std::span<const AdapterRows> cold, std::int32_t step_rows, double starts_in,
                   const LoadQueue& under_way, HandoffStep& step) {
  planner_.note_workers(mailboxes_->workers());
  planner_.plan(cold, step_rows, starts_in, mailboxes_->workers(undisturbed()), under_way, step);
  if (step.groups.empty()) return;
  step.sequence = next_sequence_;
  next_sequence_ += static_cast<std::uint64_t>(step.num_offers);
  step.turn = turn_++ % kMaxStepsInFlight;
  place_answers(0, step);
}

void Handoff::place_answers(std::size_t rank, HandoffStep& step) const {
  step.times = reinterpret_cast<std::uint64_t*>(ranks_[rank].answers[step.turn].data());
  step.tickets = reinterpret_cast<std::uint32_t*>(step.times + planner_.most_offers());
  step.timed_out = step.tickets + static_cast<std::size_t>(planner_.most_offers()) * kMaxColdGroups;
}

// Reads no field that publish() writes at the same time. Weights that have arrived on the first
// rank may still be on their way here, so a rank waits for each layer that is not offered, and for
// B where workers compute x A alone.
void Handoff::follow(std::size_t rank, const HandoffStep& first, HandoffStep& step) const {
  step.groups = first.groups;
  if (step.groups.empty()) return;
  step.layers = first.layers;
  step.num_offers = first.num_offers;
  step.sequence = first.sequence;
  step.turn = first.turn;
  place_answers(rank, step);
  step.waits.clear();
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
}

std::vector<ColdSlot> Handoff::cold_slots(const HandoffStep& step) const {
  std::vector<ColdSlot> slots;
  for (const HandoffStep::Group& group : step.groups) {
    slots.push_back({group.slot, group.job.mailbox, static_cast<std::int32_t>(group.job.first_row),
                     group.generation, group.job.workers});
  }
  return slots;
}

std::vector<HandoffTurn> Handoff::turns(const HandoffStep& step) const {
  std::vector<HandoffTurn> turns(static_cast<std::size_t>(planner_.most_offers()));
  for_each_offer(step, [&](std::size_t l, std::size_t s, std::uint64_t sequence) {
    const LayerHandoff& layer = step.layers[l];
    HandoffTurn& turn = turns[offer_at(l, s)];
    turn.sequence = sequence;
    turn.cpu_groups = layer.sites[s].cpu_groups;
    turn.xa_groups = layer.sites[s].xa_groups;
    const auto first = static_cast<std::size_t>(kFirstModuleOfSite[s]);
    const std::size_t modules = static_cast<std::size_t>(kFirstModuleOfSite[s + 1]) - first;
    std::copy_n(layer.adapted.begin() + static_cast<std::ptrdiff_t>(first), modules, turn.adapted);
    turn.num_groups = static_cast<std::int32_t>(step.groups.size());
  });
  return turns;
}

void Handoff::describe(std::size_t layer, Site site, std::uint64_t sequence,
                       const HandoffStep& step) {
  const SiteHandoff& masks = step.layers[layer].sites[static_cast<std::size_t>(site)];
  std::array<GroupJob, kMaxColdGroups> jobs;
  for (std::size_t box = 0; box < mailboxes_->size(); ++box) {
    std::size_t count = 0;
    for (std::size_t g = 0; g < step.groups.size(); ++g) {
      const GroupOfStep& of = step.groups[g].job;
      if (static_cast<std::size_t>(of.mailbox) != box) continue;
      if (((masks.cpu_groups | masks.xa_groups) & mask_of(g)) == 0) continue;
      jobs[count++] = group_job(config_, of, static_cast<std::uint32_t>(g),
                                static_cast<std::int64_t>(layer), site);
    }
    mailboxes_->publish(box, sequence, std::span(jobs).first(count));
  }
  next_published_ = sequence + 1;
}

void Handoff::publish(const StepInput& input, const LoadQueue& under_way, HandoffStep& step) {
  TANDEM_CHECK(input.num_groups == static_cast<std::int32_t>(step.groups.size()), "{} groups of {}",
               input.num_groups, step.groups.size());
  for_each_offer(step, [&](std::size_t layer, std::size_t site, std::uint64_t sequence) {
    describe(layer, static_cast<Site>(site), sequence, step);
  });
  describe_to(0, input, under_way, step);
  mailboxes_->step_begins(mailboxes_of(step), undisturbed());
  host_->cores().step_begins();
  step.begun = true;
}

void Handoff::describe_to(std::size_t rank, const StepInput& input, const LoadQueue& loads,
                          HandoffStep& step) const {
  const RankMemory& memory = ranks_[rank];
  StepHandoff& device = step.device;
  device.job.turn = input.turns;
  device.job.communicator = memory.communicator;
  device.job.groups = input.groups;
  device.job.max_groups = input.num_groups;
  device.job.max_count = 0;
  for (const HandoffStep::Group& group : step.groups) {
    device.job.max_count =
        std::max(device.job.max_count, static_cast<std::int32_t>(group.job.rows));
  }
  device.live = input.live;
  device.timed_out = input.timed_out;
  device.job.time = reinterpret_cast<std::uint64_t*>(memory.told.data());
  device.job.tickets = reinterpret_cast<std::uint32_t*>(device.job.time + planner_.most_offers());
  device.ready = loads.ready_words();
  device.whole_loads = planner_.whole_loads();
  device.shown = reinterpret_cast<std::uint32_t*>(memory.shown.data());
  device.job.state = mailboxes_->state();
  device.deadline_us = deadline_us_;
  device.layers = step.layers;
  for (std::size_t i = 0; i < mailboxes_->size(); ++i)
    device.job.mailboxes[i] = mailboxes_->view(i);
}

void Handoff::copy_back(Stream& stream, const HandoffStep& step) {
  constexpr std::size_t kPlaceBytes =
      sizeof(std::uint64_t) + kMaxColdGroups * sizeof(std::uint32_t);
  copy_timed_out_back(stream, step);
  stream.copy_to_host(step.times, step.device.job.time,
                      static_cast<std::size_t>(planner_.most_offers()) * kPlaceBytes);
}

void Handoff::copy_timed_out_back(Stream& stream, const HandoffStep& step) {
  stream.copy_to_host(step.timed_out, step.device.timed_out,
                      step.groups.size() * sizeof(std::uint32_t));
}

// Returns the layers of the group that workers computed in part or in full, and counts those that
// the GPU computed although they were offered.
std::int32_t Handoff::count_layers(const HandoffStep& step, std::size_t group) {
  std::int32_t cpu_layers = 0;
  for (std::size_t l = 0; l < step.layers.size(); ++l) {
    bool offered = false;
    bool cpu = false;
    for (std::size_t s = 0; s < kNumSites; ++s) {
      const SiteHandoff& site = step.layers[l].sites[s];
      if (((site.cpu_groups | site.xa_groups) & mask_of(group)) == 0) continue;
      const Ticket ticket = step.ticket(offer_at(l, s), group);
      offered = true;
      cpu |= ticket == Ticket::cpu || ticket == Ticket::cpu_xa;
    }
    cpu_layers += cpu ? 1 : 0;
    counts_.gpu_layers += offered && !cpu ? 1 : 0;
  }
  counts_.cpu_layers += static_cast<std::uint64_t>(cpu_layers);
  return cpu_layers;
}

void Handoff::learn(const HandoffStep& step, double seconds) {
  if (step.planned_s <= 0) return;
  plan_errors_.add(std::abs(seconds / step.planned_s - 1));  // plans to wait as well
  counts_.plan_error = plan_errors_.median();
  try {
    planner_.learn(step, seconds);
  } catch (const std::bad_alloc&) {  // the next step will teach as much
  }
}

void Handoff::tell_of(const HandoffStep& step, double seconds) noexcept {
  try {
    for (std::size_t g = 0; g < step.groups.size(); ++g) {
      ColdStart::Step told;
      told.planned_s = step.planned_s;
      told.rows = static_cast<std::int32_t>(step.groups[g].job.rows);
      told.who = who_had_layers(step, g);
      told.layers_begin_s = layer_begins(step);
      cold_starts_->step_ended(*step.groups[g].adapter, seconds, std::move(told));
    }
  } catch (const std::bad_alloc&) {  // the step is left out of the log
  }
}

HandoffOutcome Handoff::end(HandoffStep& step, bool failed, double seconds) {
  HandoffOutcome outcome;
  const auto tell_people = [&] {
    if (log::enabled(log::Level::debug)) log::debug("{}", tell(step, seconds));
  };
  if (step.groups.empty()) {
    if (step.planned_s > 0) tell_people();
    if (!failed) learn(step, seconds);
    return outcome;
  }
  // A step that failed may not have rung all of its doorbells, and those will never be rung.
  std::uint64_t broken = failed ? mailboxes_of(step) : 0;
  for (std::size_t g = 0; g < step.groups.size() && !failed; ++g) {
    if (step.timed_out[g] == 0) continue;
    broken |= mask_of(static_cast<std::size_t>(step.groups[g].job.mailbox));
    ++counts_.timed_out;
  }
  close(step, broken);
  for (std::size_t g = 0; g < step.groups.size() && !failed; ++g) {
    const HandoffStep::Group& group = step.groups[g];
    counts_.rows += group.job.rows;
    if (step.timed_out[g] != 0) {
      outcome.voided.push_back(group.adapter);
      continue;
    }
    outcome.served.push_back({group.adapter.get(), count_layers(step, g)});
  }
  tell_people();
  if (!failed && cold_starts_ != nullptr) tell_of(step, seconds);
  if (!failed && broken == 0) learn(step, seconds);
  ++counts_.steps;
  counts_.planned_s += step.planned_s;
  counts_.actual_s += seconds;
  step.groups.clear();
  return outcome;
}

void Handoff::close(HandoffStep& step, std::uint64_t broken) noexcept {
  const std::uint64_t next = step.sequence + static_cast<std::uint64_t>(step.num_offers);
  counts_.breaks +=
      static_cast<std::uint64_t>(mailboxes_->step_ended(mailboxes_of(step), broken, next));
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
  if (step.begun) close(step, mailboxes_of(step));
  step.groups.clear();
}

}  // namespace tandem
