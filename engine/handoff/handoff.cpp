#include "engine/handoff/handoff.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <bit>
#include <cstring>

#include <numeric>
#include <string>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/log.h"

namespace tandem {
namespace {

// A mailbox that was broken falls quiet by itself, as a rule: its workers were late, not dead.
constexpr auto kGrace = std::chrono::milliseconds(5);
// Until those that were killed are tried again.
constexpr auto kClearAgain = std::chrono::seconds(1);

std::uint64_t mask_of(std::size_t bit) {
  return std::uint64_t{1} << bit;
}
std::uint64_t all_seats(const Mailbox& mailbox) {
  const std::uint32_t seats = mailbox.shape().num_seats;
  return seats == kMaxSeats ? ~std::uint64_t{0} : mask_of(seats) - 1;
}

std::int32_t most_offers(const ModelConfig& config) {
  return static_cast<std::int32_t>(config.num_layers) * kNumSites;
}

}  // namespace

Handoff::Handoff(const ModelConfig& config, DType dtype, bool whole_loads,
                 const HandoffOptions& options, const HostTier& host, const Clock& clock)
    : config_(config),
      dtype_(dtype),
      whole_loads_(whole_loads),
      max_rows_(options.max_rows),
      deadline_us_(options.deadline_us),
      costs_(options.costs),
      plan_(options.plan),
      host_(&host),
      clock_(&clock) {}

Result<std::unique_ptr<Handoff>> Handoff::create(Device& device, const ModelConfig& config,
                                                 DType dtype, std::int32_t max_rank,
                                                 bool whole_loads, const HandoffOptions& options,
                                                 const HostTier& host, const Clock& clock) {
  TANDEM_CHECK(!options.groups.empty() && options.groups.size() <= kMaxMailboxes, "{} groups",
               options.groups.size());
  TANDEM_CHECK(host.num_arenas() == options.groups.size(), "{} arenas for {} groups",
               host.num_arenas(), options.groups.size());
  TANDEM_CHECK(options.max_rows > 0 && options.start_workers != nullptr);
  std::unique_ptr<Handoff> handoff(new Handoff(config, dtype, whole_loads, options, host, clock));
  TANDEM_TRY(handoff->make_boxes(device, max_rank, options));
  TANDEM_TRY(handoff->make_device_memory(device));
  TANDEM_TRY(handoff->start_workers(options));
  return handoff;
}

Handoff::~Handoff() {
  pool_.reset();
}

Status Handoff::make_boxes(Device& device, std::int32_t max_rank, const HandoffOptions& options) {
  constexpr std::string_view kPurpose = "the workers' mailboxes (lower handoff_tokens)";
  for (const HandoffOptions::Group& group : options.groups) {
    const auto seats = std::min<std::int32_t>(
        kMaxSeats, static_cast<std::int32_t>(group.cpus.size()) + group.spare_seats);
    TANDEM_CHECK(seats > 0, "a group of no workers");
    TANDEM_ASSIGN(
        Mailbox made,
        Mailbox::create(mailbox_shape(config_, dtype_, max_rank, max_rows_, seats), group.node));
    Box box;
    box.mailbox = std::make_unique<Mailbox>(std::move(made));
    const Mailbox& mailbox = *box.mailbox;
    for (const auto& [region, pinned] : {std::pair(&mailbox.inbox_region(), &box.inbox),
                                         std::pair(&mailbox.outbox_region(), &box.outbox)}) {
      TANDEM_ASSIGN(*pinned, device.pin(region->data(), region->bytes(), kPurpose));
    }
    static_assert(sizeof(Bell) % sizeof(std::uint64_t) == 0 &&
                  sizeof(Seat) % sizeof(std::uint64_t) == 0);
    MailboxView& view = box.view;
    view.x = mailbox.x();
    view.bells = reinterpret_cast<std::uint64_t*>(mailbox.bells());
    view.bell_stride = sizeof(Bell) / sizeof(std::uint64_t);
    view.y = mailbox.y();
    view.v = mailbox.v();
    view.done = reinterpret_cast<const std::uint64_t*>(mailbox.seat(0).done);
    view.seat_stride = sizeof(Seat) / sizeof(std::uint64_t);
    view.max_in = mailbox.shape().max_in;
    view.max_out = mailbox.shape().max_out;
    view.max_v = std::int64_t{mailbox.shape().max_rank} * kMaxModulesOfJob;
    boxes_.push_back(std::move(box));
  }
  return {};
}

Status Handoff::make_device_memory(Device& device) {
  constexpr std::string_view kPurpose = "the handoff's tickets";
  const auto offers = static_cast<std::size_t>(most_offers(config_));
  const std::size_t ticket_bytes = offers * kMaxColdGroups * sizeof(std::uint32_t);
  TANDEM_ASSIGN(tickets_, device.allocate(ticket_bytes, kPurpose));
  TANDEM_ASSIGN(state_, device.allocate(sizeof(HandoffState), kPurpose));
  for (Buffer& answers : answers_) {
    TANDEM_ASSIGN(answers, device.allocate_pinned(
                               ticket_bytes + kMaxColdGroups * sizeof(std::uint32_t), kPurpose));
  }
  std::memset(answers_[0].data(), 0, sizeof(HandoffState));
  TANDEM_ASSIGN(const auto stream, device.create_stream("handoff"));
  stream->copy_to_device(state_.data(), answers_[0].data(), sizeof(HandoffState));
  TANDEM_TRY(stream->synchronize());
  // Jobs of two steps lie in the ring of group jobs at once, and it wraps where it may.
  max_groups_ = static_cast<std::int32_t>(std::clamp<std::uint64_t>(
      kNumGroupJobs / 2 / std::max<std::uint64_t>(offers, 1), 1, kMaxColdGroups));
  return {};
}

Status Handoff::start_workers(const HandoffOptions& options) {
  ControlInfo info;
  info.model = options.model_name;
  info.engine_cpus = options.engine_cpus;
  WorkerPoolOptions pool;
  pool.spin_ms = options.spin_ms;
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    const HandoffOptions::Group& group = options.groups[i];
    Mailbox& mailbox = *boxes_[i].mailbox;
    const std::string& arena = host_->region_name(i);
    pool.groups.push_back({&mailbox, arena, group.node, group.cpus});
    info.groups.push_back({group.node, mailbox.inbox_name(), mailbox.outbox_name(), arena,
                           static_cast<int>(mailbox.shape().num_seats), group.cpus});
  }
  TANDEM_ASSIGN(ControlRegion control, ControlRegion::create(info));
  control_.emplace(std::move(control));
  TANDEM_ASSIGN(pool_, options.start_workers(pool));
  return {};
}

std::uint64_t Handoff::workers_of(std::size_t box) const {
  return boxes_[box].broken ? 0 : pool_->live(static_cast<int>(box));
}

std::int32_t Handoff::num_workers() const {
  std::int32_t workers = 0;
  for (std::size_t i = 0; i < boxes_.size(); ++i) workers += std::popcount(workers_of(i));
  return workers;
}

std::int32_t Handoff::live_workers() const {
  std::int32_t workers = 0;
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    workers += std::popcount(pool_->live(static_cast<int>(i)));
  }
  return workers;
}

double Handoff::step_time(std::int32_t rows) const {
  return costs_.layer_time(rows) * static_cast<double>(config_.num_layers);
}

void Handoff::describe(std::int64_t layer, Site site, std::uint64_t sequence,
                       const HandoffStep& step) {
  const SiteHandoff& masks =
      step.layers[static_cast<std::size_t>(layer)].sites[static_cast<std::size_t>(site)];
  std::array<GroupJob, kMaxColdGroups> jobs;
  // Every mailbox counts every job: workers leave those behind that have nothing for them.
  for (std::size_t box = 0; box < boxes_.size(); ++box) {
    std::uint32_t count = 0;
    for (std::size_t g = 0; g < step.groups.size(); ++g) {
      const GroupOfStep& of = step.groups[g].job;
      if (static_cast<std::size_t>(of.mailbox) != box) continue;
      if (((masks.cpu_groups | masks.xa_groups) & mask_of(g)) == 0) continue;
      jobs[count++] = group_job(config_, of, static_cast<std::uint32_t>(g), layer, site);
    }
    boxes_[box].mailbox->publish(sequence, jobs.data(), count);
  }
}

void Handoff::publish(const StepInput& input, const DeviceTier& tier, HandoffStep& step) {
  TANDEM_CHECK(input.num_groups == static_cast<std::int32_t>(step.groups.size()), "{} groups of {}",
               input.num_groups, step.groups.size());
  std::uint64_t sequence = step.device.first_sequence;
  for (std::int64_t layer = 0; layer < config_.num_layers; ++layer) {
    for (int s = 0; s < kNumSites; ++s) {
      const auto& sites = step.layers[static_cast<std::size_t>(layer)].sites;
      if (!sites[static_cast<std::size_t>(s)].offered()) continue;
      describe(layer, static_cast<Site>(s), sequence++, step);
    }
  }
  StepHandoff& device = step.device;
  device.groups = input.groups;
  device.num_groups = input.num_groups;
  device.max_count = 0;
  std::uint64_t boxes = 0;
  for (const HandoffStep::Group& group : step.groups) {
    device.max_count = std::max(device.max_count, static_cast<std::int32_t>(group.job.rows));
    boxes |= mask_of(static_cast<std::size_t>(group.job.mailbox));
  }
  device.live = input.live;
  device.voids = input.voids;
  device.tickets = reinterpret_cast<std::uint32_t*>(tickets_.data());
  device.ready = tier.ready_words();
  device.whole_loads = whole_loads_;
  device.state = reinterpret_cast<HandoffState*>(state_.data());
  device.deadline_us = deadline_us_;
  device.layers = step.layers;
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    device.mailboxes[i] = boxes_[i].view;
    if ((boxes & mask_of(i)) == 0) continue;
    ++boxes_[i].steps_in_flight;
    boxes_[i].mailbox->wake_workers();
  }
}

void Handoff::copy_back(Stream& stream, const HandoffStep& step) {
  const std::size_t groups = step.groups.size();
  stream.copy_to_host(step.answers, step.device.voids, groups * sizeof(std::uint32_t));
  stream.copy_to_host(step.answers + groups, step.device.tickets,
                      groups * static_cast<std::size_t>(step.num_offers) * sizeof(std::uint32_t));
}

HandoffOutcome Handoff::end(HandoffStep& step, bool failed, double seconds) {
  HandoffOutcome outcome;
  if (step.groups.empty()) return outcome;
  const std::uint64_t next =
      step.device.first_sequence + static_cast<std::uint64_t>(step.num_offers);
  std::uint64_t used = 0;
  std::uint64_t broken = 0;
  const std::size_t groups = step.groups.size();
  std::vector<std::int32_t> by_workers;  // layers of each group
  for (std::size_t g = 0; g < groups; ++g) {
    const HandoffStep::Group& group = step.groups[g];
    const std::uint64_t box = mask_of(static_cast<std::size_t>(group.job.mailbox));
    used |= box;
    if (failed) {
      // Whatever was offered may not have been: the bells that were not rung never will be.
      broken |= box;
      continue;
    }
    counts_.rows += group.job.rows;
    if (step.answers[g] != 0) {
      broken |= box;
      ++counts_.voids;
      outcome.voided.push_back(group.adapter);
      continue;
    }
    std::int32_t cpu_layers = 0;
    const std::uint32_t* ticket = step.answers + groups + g;
    for (const LayerHandoff& layer : step.layers) {
      bool offered = false;
      bool cpu = false;
      for (const SiteHandoff& site : layer.sites) {
        if (!site.offered()) continue;
        const auto value = static_cast<Ticket>(*ticket);
        ticket += groups;
        offered |= ((site.cpu_groups | site.xa_groups) & mask_of(g)) != 0;
        cpu |= value == Ticket::cpu || value == Ticket::cpu_xa;
      }
      cpu_layers += cpu ? 1 : 0;
      counts_.gpu_layers += offered && !cpu ? 1 : 0;
    }
    counts_.cpu_layers += static_cast<std::uint64_t>(cpu_layers);
    outcome.served.push_back({group.adapter.get(), cpu_layers});
    by_workers.push_back(cpu_layers);
  }
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    Box& box = boxes_[i];
    box.mailbox->retire_before(next);
    if ((used & mask_of(i)) == 0) continue;
    --box.steps_in_flight;
    if ((broken & mask_of(i)) != 0 && !box.broken) {
      box.broken = true;
      ++counts_.breaks;
    }
    box.cleared = false;
    box.idle_since = clock_->now();
  }
  log::debug("a cold step: {} groups, {} offers, planned {:.3f} ms, took {:.3f} ms; by workers: {}",
             groups, step.num_offers, step.planned_s * 1e3, seconds * 1e3,
             fmt::join(by_workers, ", "));
  ++counts_.steps;
  counts_.planned_s += step.planned_s;
  counts_.actual_s += seconds;
  step.groups.clear();
  return outcome;
}

void Handoff::mend(Stream& stream) {
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    Box& box = boxes_[i];
    if (!box.broken || box.steps_in_flight > 0) continue;
    const std::uint64_t last = box.mailbox->inbox().published.load(std::memory_order_relaxed);
    if (box.mailbox->quiet(all_seats(*box.mailbox), last, pool_->held(static_cast<int>(i)))) {
      auto* const state = reinterpret_cast<HandoffState*>(state_.data());
      stream.set_flag(&state->broken[i], 0, 1);
      box.broken = false;
      continue;
    }
    const Duration since = clock_->now() - box.idle_since;
    if (!box.cleared && since > kGrace) {
      pool_->clear(static_cast<int>(i), last);
      box.cleared = true;
      log::warning("CPU workers did not answer in time; those that still have not are ended");
    } else if (box.cleared && since > kClearAgain) {
      box.cleared = false;
      box.idle_since = clock_->now();
    }
  }
}

}  // namespace tandem
