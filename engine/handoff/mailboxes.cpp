#include "engine/handoff/mailboxes.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/log/log.h"
#include "base/threads/thread_cpus.h"
#include "engine/handoff/handoff_jobs.h"
#include "shm/jobs.h"

namespace tandem {
namespace {

// Most broken mailboxes fall quiet by themselves in this time, as their workers were late, not
// dead.
constexpr auto kGrace = std::chrono::milliseconds(5);
// The time until workers that did not end are killed again.
constexpr auto kClearAgain = std::chrono::seconds(1);

std::uint64_t all_worker_slots(const Mailbox& mailbox) {
  const std::uint32_t worker_slots = mailbox.shape().num_worker_slots;
  return worker_slots == kMaxWorkerSlots ? ~std::uint64_t{0} : mask_of(worker_slots) - 1;
}

}  // namespace

Result<std::unique_ptr<Mailboxes>> Mailboxes::create(Device& device, Communicator* communicator,
                                                     const ModelSpec& config, DType dtype,
                                                     std::int32_t max_rank,
                                                     const HandoffOptions& options,
                                                     const HostTier& host, const Clock& clock) {
  TANDEM_CHECK(!options.groups.empty() && options.groups.size() <= kMaxMailboxes, "{} groups",
               options.groups.size());
  TANDEM_CHECK(host.num_arenas() == options.groups.size(), "{} arenas for {} groups",
               host.num_arenas(), options.groups.size());
  TANDEM_CHECK(options.max_rows > 0 && options.start_workers != nullptr);
  std::unique_ptr<Mailboxes> made(new Mailboxes(clock));
  TANDEM_TRY(made->make_boxes(device, config, dtype, max_rank, options));
  TANDEM_TRY(made->make_state(device, communicator));
  TANDEM_TRY(made->start_workers(options, host));
  return made;
}

Mailboxes::~Mailboxes() {
  pool_.reset();
}

Status Mailboxes::make_boxes(Device& device, const ModelSpec& config, DType dtype,
                             std::int32_t max_rank, const HandoffOptions& options) {
  constexpr std::string_view kPurpose = "the workers' mailboxes (lower handoff_tokens)";
  for (const HandoffOptions::Group& group : options.groups) {
    const auto worker_slots = std::min<std::int32_t>(
        kMaxWorkerSlots, static_cast<std::int32_t>(group.cpus.size()) + group.spare_worker_slots);
    TANDEM_CHECK(worker_slots > 0, "a group of no workers");
    TANDEM_ASSIGN(Mailbox made, Mailbox::create(mailbox_shape(config, dtype, max_rank,
                                                              options.max_rows, worker_slots),
                                                group.node));
    Box box;
    box.mailbox = std::make_unique<Mailbox>(std::move(made));
    const Mailbox& mailbox = *box.mailbox;
    for (const auto& [region, pinned] : {std::pair(&mailbox.inbox_region(), &box.inbox),
                                         std::pair(&mailbox.outbox_region(), &box.outbox)}) {
      TANDEM_ASSIGN(*pinned, device.pin(region->data(), region->bytes(), kPurpose));
    }
    static_assert(sizeof(Doorbell) % sizeof(std::uint64_t) == 0 &&
                  sizeof(WorkerSlot) % sizeof(std::uint64_t) == 0);
    MailboxView& view = box.view;
    view.x = mailbox.x_of(0);
    view.doorbells = reinterpret_cast<std::uint64_t*>(mailbox.doorbells());
    view.doorbell_stride = sizeof(Doorbell) / sizeof(std::uint64_t);
    view.y = mailbox.y_of(0);
    view.v = mailbox.v_of(0);
    view.done = reinterpret_cast<const std::uint64_t*>(mailbox.worker_slot(0).done);
    view.worker_slot_stride = sizeof(WorkerSlot) / sizeof(std::uint64_t);
    view.max_in = mailbox.shape().max_in;
    view.max_out = mailbox.shape().max_out;
    view.max_v = std::int64_t{mailbox.shape().max_rank} * kMaxModulesOfJob;
    view.v_row = mailbox.v_row();
    boxes_.push_back(std::move(box));
  }
  return {};
}

Status Mailboxes::make_state(Device& device, Communicator* communicator) {
  constexpr std::string_view kPurpose = "the handoff's state";
  TANDEM_ASSIGN(state_, communicator == nullptr
                            ? device.allocate(sizeof(HandoffState), kPurpose)
                            : communicator->allocate_words(sizeof(HandoffState), kPurpose));
  if (state_.host_visible()) {
    std::memset(state_.data(), 0, sizeof(HandoffState));
    return {};
  }
  TANDEM_ASSIGN(Buffer zeros, device.allocate_pinned(sizeof(HandoffState), kPurpose));
  std::memset(zeros.data(), 0, sizeof(HandoffState));
  TANDEM_ASSIGN(const auto stream, device.create_stream("handoff"));
  stream->copy_to_device(state_.data(), zeros.data(), sizeof(HandoffState));
  return stream->synchronize();
}

Status Mailboxes::start_workers(const HandoffOptions& options, const HostTier& host) {
  ControlInfo info;
  info.model = options.model_name;
  info.engine_cpus = options.engine_cpus;
  WorkerPoolOptions pool;
  pool.spin_ms = options.spin_ms;
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    const HandoffOptions::Group& group = options.groups[i];
    Mailbox& mailbox = *boxes_[i].mailbox;
    const std::string& arena = host.region_name(i);
    pool.groups.push_back({&mailbox, arena, group.node, group.cpus});
    info.groups.push_back({group.node, mailbox.inbox_region().name(),
                           mailbox.outbox_region().name(), arena,
                           static_cast<int>(mailbox.shape().num_worker_slots), group.cpus});
  }
  TANDEM_ASSIGN(ControlRegion control, ControlRegion::create(info));
  control_.emplace(std::move(control));
  if (options.place) {
    pool.allowed = [] { return cpus_of_thread(); };
    pool.place = [this, place = options.place](const auto& now, const auto& allowed) {
      auto cpus = place(now, allowed);
      for (std::size_t i = 0; i < cpus.size(); ++i) {
        control_->set_cpus(static_cast<int>(i), cpus[i]);
      }
      return cpus;
    };
  }
  TANDEM_ASSIGN(pool_, options.start_workers(pool));
  return {};
}

std::vector<std::uint64_t> Mailboxes::workers() const {
  std::vector<std::uint64_t> workers(boxes_.size());
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    if (!boxes_[i].broken) workers[i] = pool_->live(static_cast<int>(i));
  }
  return workers;
}

std::vector<MailboxWorkers> Mailboxes::workers(std::span<const std::uint64_t> undisturbed) {
  std::vector<MailboxWorkers> workers(boxes_.size());
  const TimePoint now = clock_->now();
  double usual_s = 0;
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    Box& box = boxes_[i];
    box.wakes.look(*box.mailbox, now);
    usual_s = std::max(usual_s, box.wakes.usual_s());
    if (box.broken) continue;
    workers[i].all = pool_->live(static_cast<int>(i)) & undisturbed[i];
    workers[i].asleep = sleepers(*box.mailbox) & workers[i].all;
    workers[i].awake_in = box.wakes.awake_in(workers[i].asleep, now);
    workers[i].just_woken_for = box.wakes.just_woken_for(workers[i].asleep, now);
    workers[i].awake_just_woken_for = box.wakes.just_woken_for(0, now);
  }
  worker_wake_s_.store(usual_s, std::memory_order_relaxed);
  return workers;
}

std::int32_t Mailboxes::live_workers() const {
  std::int32_t workers = 0;
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    workers += std::popcount(pool_->live(static_cast<int>(i)));
  }
  return workers;
}

void Mailboxes::publish(std::size_t box, std::uint64_t sequence, std::span<const GroupJob> jobs) {
  publish_job(*boxes_[box].mailbox, sequence, jobs.data(), static_cast<std::uint32_t>(jobs.size()),
              boxes_[box].speeds.weights());
}

void Mailboxes::wake(std::span<const std::uint64_t> undisturbed) {
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    if (!boxes_[i].broken) wake(i, undisturbed[i]);
  }
}

void Mailboxes::wake(std::size_t box, std::uint64_t undisturbed) {
  const std::uint64_t learnt_of = pool_->live(static_cast<int>(box)) & undisturbed;
  boxes_[box].wakes.note_waking(*boxes_[box].mailbox, learnt_of, clock_->now());
  wake_workers(*boxes_[box].mailbox);
}

void Mailboxes::step_begins(std::uint64_t used, std::span<const std::uint64_t> undisturbed) {
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    if ((used & mask_of(i)) == 0) continue;
    ++boxes_[i].steps_in_flight;
    wake(i, undisturbed[i]);
  }
}

int Mailboxes::step_ended(std::uint64_t used, std::uint64_t broken, std::uint64_t next_sequence) {
  int breaks = 0;
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    Box& box = boxes_[i];
    retire_before(*box.mailbox, next_sequence);
    if ((used & mask_of(i)) == 0) continue;
    --box.steps_in_flight;
    box.speeds.look(*box.mailbox);
    box.wakes.look(*box.mailbox, clock_->now());
    if ((broken & mask_of(i)) != 0 && !box.broken) {
      box.broken = true;
      ++breaks;
    }
    box.cleared = false;
    box.idle_since = clock_->now();
  }
  return breaks;
}

void Mailboxes::mend(Stream& stream) {
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    Box& box = boxes_[i];
    if (!box.broken || box.steps_in_flight > 0) continue;
    const std::uint64_t last = box.mailbox->inbox().published.load(std::memory_order_relaxed);
    if (quiet(*box.mailbox, all_worker_slots(*box.mailbox), last,
              pool_->held(static_cast<int>(i)))) {
      stream.set_flag(&state()->broken[i], 0, 1);
      box.broken = false;
      continue;
    }
    const Duration since = clock_->now() - box.idle_since;
    if (!box.cleared && since > kGrace) {
      pool_->clear(static_cast<int>(i), last);
      box.cleared = true;
      log::warning("CPU workers did not answer in time; those that still do not are stopped");
    } else if (box.cleared && since > kClearAgain) {
      box.cleared = false;
      box.idle_since = clock_->now();
    }
  }
}

}  // namespace tandem
