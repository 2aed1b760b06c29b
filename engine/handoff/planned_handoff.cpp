#include "engine/handoff/planned_handoff.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <new>
#include <span>

#include "base/check.h"
#include "base/log/log.h"
#include "engine/handoff/handoff.h"
#include "engine/handoff/handoff_jobs.h"
#include "engine/handoff/step_lessons.h"

namespace tandem {
namespace {

// Calls visit(layer, site, sequence) for each offer of the step, in order.
template <typename Visit>
void for_each_offer(const HandoffStep& step, const Visit& visit) {
  std::uint64_t sequence = step.sequence;
  for (std::size_t layer = 0; layer < step.layers.size(); ++layer) {
    for (std::size_t site = 0; site < step.num_sites; ++site) {
      if (step.layers[layer].sites[site].offered()) visit(layer, site, sequence++);
    }
  }
}

}  // namespace

std::vector<ColdSlot> PlannedHandoff::cold_slots() const {
  std::vector<ColdSlot> slots;
  for (const HandoffStep::Group& group : step_->groups) {
    slots.push_back({group.slot, group.job.mailbox, static_cast<std::int32_t>(group.job.first_row),
                     group.generation, group.job.workers});
  }
  return slots;
}

std::vector<OfferDescriptor> PlannedHandoff::descriptors() const {
  std::vector<OfferDescriptor> descriptors(
      static_cast<std::size_t>(handoff_->planner_.most_offers()));
  for_each_offer(*step_, [&](std::size_t l, std::size_t s, std::uint64_t sequence) {
    const SiteHandoff& site = step_->layers[l].sites[s];
    OfferDescriptor& descriptor = descriptors[offer_at(step_->num_sites, l, s)];
    descriptor.sequence = sequence;
    descriptor.cpu_groups = site.cpu_groups;
    descriptor.xa_groups = site.xa_groups;
    std::ranges::copy(site.adapted, descriptor.adapted);
  });
  return descriptors;
}

OfferedHandoff PlannedHandoff::offer(const StepInput& input, const AdapterSlots& slots) && {
  if (!step_->groups.empty()) {
    TANDEM_CHECK(input.num_groups == static_cast<std::int32_t>(step_->groups.size()),
                 "{} groups of {}", input.num_groups, step_->groups.size());
    describe(input, slots);
    if (rank_ == 0) publish();
  }
  return {*handoff_, rank_, std::move(step_)};
}

void PlannedHandoff::describe(const StepInput& input, const AdapterSlots& slots) {
  const Handoff::RankMemory& memory = handoff_->ranks_[rank_];
  const Mailboxes& mailboxes = *handoff_->mailboxes_;
  StepHandoff& device = step_->device;
  device.job.descriptor = input.descriptors;
  device.job.communicator = memory.communicator;
  device.job.groups = input.groups;
  device.job.num_groups = input.num_groups;
  device.job.max_count = 0;
  for (const HandoffStep::Group& group : step_->groups) {
    device.job.max_count =
        std::max(device.job.max_count, static_cast<std::int32_t>(group.job.rows));
  }
  device.live = input.live;
  device.timed_out = input.timed_out;
  device.job.time = reinterpret_cast<std::uint64_t*>(memory.results.data());
  device.job.tickets =
      reinterpret_cast<std::uint32_t*>(device.job.time + handoff_->planner_.most_offers());
  device.ready = slots.ready_words();
  device.whole_loads = handoff_->planner_.whole_loads();
  device.shown = reinterpret_cast<std::uint32_t*>(memory.shown.data());
  device.job.state = mailboxes.state();
  device.deadline_us = handoff_->deadline_us_;
  device.layers = step_->layers;
  for (std::size_t i = 0; i < mailboxes.size(); ++i) {
    device.job.mailboxes[i] = mailboxes.view(i);
  }
}

void PlannedHandoff::publish() {
  for_each_offer(*step_, [&](std::size_t layer, std::size_t site, std::uint64_t sequence) {
    publish_job(layer, static_cast<Site>(site), sequence);
  });
  handoff_->mailboxes_->step_begins(step_->mailboxes(), handoff_->undisturbed());
  handoff_->host_->cores().step_begins();
  step_->begun = true;
}

void PlannedHandoff::publish_job(std::size_t layer, Site site, std::uint64_t sequence) {
  const SiteHandoff& masks = step_->layers[layer].sites[static_cast<std::size_t>(site)];
  std::array<GroupJob, kMaxColdGroups> jobs;
  for (std::size_t box = 0; box < handoff_->mailboxes_->size(); ++box) {
    std::size_t count = 0;
    for (std::size_t g = 0; g < step_->groups.size(); ++g) {
      const GroupOfStep& of = step_->groups[g].job;
      if (static_cast<std::size_t>(of.mailbox) != box) continue;
      if (((masks.cpu_groups | masks.xa_groups) & mask_of(g)) == 0) continue;
      jobs[count++] = group_job(handoff_->config_, of, static_cast<std::uint32_t>(g),
                                static_cast<std::int64_t>(layer), site);
    }
    handoff_->mailboxes_->publish(box, sequence, std::span(jobs).first(count));
  }
  handoff_->next_published_ = sequence + 1;
}

void OfferedHandoff::copy_back(Stream& stream) const {
  constexpr std::size_t kPlaceBytes =
      sizeof(std::uint64_t) + kMaxColdGroups * sizeof(std::uint32_t);
  stream.copy_to_host(step_->timed_out, step_->device.timed_out,
                      step_->groups.size() * sizeof(std::uint32_t));
  if (rank_ > 0) return;
  stream.copy_to_host(step_->times, step_->device.job.time,
                      static_cast<std::size_t>(handoff_->planner_.most_offers()) * kPlaceBytes);
}

// Returns the layers of the group that workers computed in part or in full, and counts those that
// the GPU computed although they were offered.
std::int32_t OfferedHandoff::count_layers(std::size_t group) {
  std::int32_t cpu_layers = 0;
  for (std::size_t l = 0; l < step_->layers.size(); ++l) {
    bool offered = false;
    bool cpu = false;
    for (std::size_t s = 0; s < step_->num_sites; ++s) {
      const SiteHandoff& site = step_->layers[l].sites[s];
      if (((site.cpu_groups | site.xa_groups) & mask_of(group)) == 0) continue;
      const Ticket ticket = step_->ticket(offer_at(step_->num_sites, l, s), group);
      offered = true;
      cpu |= ticket == Ticket::cpu || ticket == Ticket::cpu_xa;
    }
    cpu_layers += cpu ? 1 : 0;
    handoff_->counts_.gpu_layers += offered && !cpu ? 1 : 0;
  }
  handoff_->counts_.cpu_layers += static_cast<std::uint64_t>(cpu_layers);
  return cpu_layers;
}

void OfferedHandoff::learn(double seconds) {
  if (step_->planned_s <= 0) return;
  // Plans to wait count as well.
  handoff_->plan_errors_.add(std::abs(seconds / step_->planned_s - 1));
  handoff_->counts_.plan_error = handoff_->plan_errors_.median();
  try {
    handoff_->learner_.learn(*step_, seconds);
  } catch (const std::bad_alloc&) {  // the next step will teach as much
  }
}

void OfferedHandoff::log_cold_starts(double seconds) noexcept {
  if (handoff_->cold_starts_ == nullptr) return;
  try {
    for (std::size_t g = 0; g < step_->groups.size(); ++g) {
      ColdStart::Step ended;
      ended.planned_s = step_->planned_s;
      ended.rows = static_cast<std::int32_t>(step_->groups[g].job.rows);
      ended.who = who_had_layers(*step_, g);
      ended.layers_begin_s = layer_begins(*step_);
      handoff_->cold_starts_->step_ended(*step_->groups[g].adapter, seconds, std::move(ended));
    }
  } catch (const std::bad_alloc&) {  // the step is left out of the log
  }
}

HandoffOutcome OfferedHandoff::finish(bool failed, std::uint64_t timed_out_elsewhere,
                                      double seconds) && {
  const HandoffStep& step = *step_;
  HandoffCounts& counts = handoff_->counts_;
  HandoffOutcome outcome;
  // A step that failed may not have rung all of its doorbells, and those will never be rung.
  std::uint64_t broken = failed ? step.mailboxes() : 0;
  for (std::size_t g = 0; g < step.groups.size() && !failed; ++g) {
    if ((timed_out_elsewhere & mask_of(g)) != 0) step.timed_out[g] = 1;
    if (step.timed_out[g] == 0) continue;
    broken |= mask_of(static_cast<std::size_t>(step.groups[g].job.mailbox));
    ++counts.timed_out;
  }
  if (step.begun) handoff_->close(*step_, broken);
  for (std::size_t g = 0; g < step.groups.size() && !failed; ++g) {
    const HandoffStep::Group& group = step.groups[g];
    counts.rows += group.job.rows;
    if (step.timed_out[g] != 0) {
      outcome.timed_out.push_back(group.slot);
    } else {
      outcome.served.push_back({g, group.slot, count_layers(g)});
    }
  }
  if (step.planned_s > 0 && log::enabled(log::Level::debug)) {
    log::debug("{}", describe_step(step, seconds));
  }
  if (!failed) log_cold_starts(seconds);
  if (!failed && broken == 0) {
    learn(seconds);
  } else {
    handoff_->learner_.pass(step);
  }
  if (!step.groups.empty()) {
    ++counts.steps;
    counts.planned_s += step.planned_s;
    counts.actual_s += seconds;
  }
  step_.reset();
  return outcome;
}

}  // namespace tandem
