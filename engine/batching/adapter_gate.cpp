#include "engine/batching/adapter_gate.h"

#include <algorithm>
#include <limits>

#include "engine/batching/line/waiting_line.h"

namespace tandem {

std::vector<std::pair<Sequence*, Status>> AdapterGate::request(
    const std::vector<std::unique_ptr<Sequence>>& waiting) {
  std::vector<std::pair<Sequence*, Status>> failed;
  refused_ = false;
  blocked_ = nullptr;
  forget_turns(waiting);
  bool busy = false;
  DeviceTier::Turn turn(*device_);
  const std::int32_t kept_pages = device_->holds().kept_pages();
  for (const auto& sequence : waiting) {
    const AdapterLease& adapter = sequence->context().adapter;
    if (adapter == nullptr) continue;
    if (Status fits = check_fits(*sequence, kept_pages); !fits) {
      failed.emplace_back(sequence.get(), std::move(fits));
      continue;
    }
    const Residency residency = adapter->residency();
    if (blocked_ != nullptr || busy) continue;
    turn.want(*adapter);
    if (residency == Residency::resident || residency == Residency::loading) continue;
    switch (turn.reserve(adapter)) {
      case DeviceTier::Start::on_its_way:
        // Sets come and go without being unloaded.
        if (keeps_all(mode_) && adapter->set().empty()) device_->holds().keep(*adapter);
        break;
      case DeviceTier::Start::busy:
        busy = true;
        break;
      case DeviceTier::Start::no_room:
        blocked_ = sequence.get();
        hold_room_for(*adapter);
        break;
      case DeviceTier::Start::not_in_host_tier:
        if (Status failure = adapter->home().read_failure(sequence->context().readings_before);
            !failure) {
          failed.emplace_back(sequence.get(), std::move(failure));
        } else {
          store_->request_read(adapter);
        }
        break;
    }
  }
  enqueue_loads(waiting, turn);
  if (blocked_ == nullptr) draining_.clear();
  return failed;
}

// Forgets the steps planned for adapters that are ready, that no sequence waits for, or that have
// left the device. Moves the others forward so that the first of them begins in the next step.
void AdapterGate::forget_turns(const std::vector<std::unique_ptr<Sequence>>& waiting) {
  if (turns_.empty()) return;
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  std::erase_if(turns_, [&](const Turn& turn) {
    const Residency residency = turn.adapter->residency();
    const bool is_awaited = std::ranges::any_of(
        waiting, [&](const auto& sequence) { return sequence->context().adapter == turn.adapter; });
    const bool gone = !is_awaited || (residency != Residency::loading &&
                                      (residency != Residency::resident || turn.step <= step_));
    if (!gone) first = std::min(first, turn.step);
    return gone;
  });
  if (turns_.empty() || first <= step_ + 1) return;
  for (Turn& turn : turns_) turn.step -= first - (step_ + 1);
}

void AdapterGate::enqueue_loads(const std::vector<std::unique_ptr<Sequence>>& waiting,
                                DeviceTier::Turn& loads) {
  const std::span<const AdapterLease> reserved = loads.reserved();
  if (reserved.empty()) return;
  if (plan_ == nullptr) {
    if (wake_ != nullptr) wake_();
    loads.enqueue({});
    return;
  }
  const auto rows_of = [&](const AdapterLease& adapter) {
    std::int32_t rows = 0;
    for (const auto& sequence : waiting) {
      if (sequence->context().adapter != adapter) continue;
      rows += static_cast<std::int32_t>(sequence->left_to_compute() - sequence->unadapted_left());
    }
    return rows;
  };
  std::vector<AdapterRows> on_their_way;
  for (const Turn& turn : turns_) on_their_way.push_back({turn.adapter, rows_of(turn.adapter)});
  std::vector<AdapterRows> new_loads;
  for (const AdapterLease& adapter : reserved) {
    new_loads.push_back({adapter, rows_of(adapter)});
    turns_.push_back({adapter, 0});
  }
  const AdmissionPlan plan = plan_(std::move(on_their_way), std::move(new_loads));
  for (std::size_t i = 0; i < turns_.size(); ++i) {
    turns_[i].step = step_ + 1 + static_cast<std::uint64_t>(plan.turns[i]);
  }
  if (plan.hands_over && wake_ != nullptr) wake_();
  loads.enqueue(plan.order);
  // Workers that are awake when the step is planned may get some of it, and their wake time is
  // measured.
  if (plan.may_hand_over && wake_ != nullptr) wake_();
}

void AdapterGate::restart() noexcept {
  refused_ = false;
  blocked_ = nullptr;
  missing_pages_ = 0;
  draining_.clear();
  turns_.clear();
}

bool AdapterGate::has_turn(const ServedAdapter& adapter) const {
  const auto turn = std::find_if(turns_.begin(), turns_.end(),
                                 [&](const Turn& each) { return each.adapter.get() == &adapter; });
  return turn == turns_.end() || turn->step <= step_;
}

Status AdapterGate::check_fits(const Sequence& sequence, std::int32_t kept_pages) const {
  const ServedAdapter& adapter = *sequence.context().adapter;
  const GenerationRequest& request = sequence.context().request;
  TANDEM_TRY(device_->room().check_size(adapter));
  const std::int32_t adapter_pages =
      device_->holds().is_kept(adapter) ? 0 : device_->room().pages_of(adapter);
  const std::int32_t kv_pages =
      pool_->shape().pages_for(sequence.tokens.prompt_len() + request.max_tokens);
  if (adapter_pages + kv_pages + kept_pages > pool_->shape().num_pages) {
    return error(StatusCode::resource_exhausted,
                 "adapter '{}' needs {} pages and the request {}; of the pool's {}, {} are taken "
                 "by pinned adapters: ask for less, or raise pool_gb",
                 adapter.name(), adapter_pages, kv_pages, pool_->shape().num_pages, kept_pages);
  }
  if (adapter_pages > 0 && device_->holds().num_kept() >= device_->room().num_slots()) {
    return error(StatusCode::resource_exhausted,
                 "all {} places for adapters on the device are taken by pinned ones; raise "
                 "max_device_adapters",
                 device_->room().num_slots());
  }
  return {};
}

Status AdapterGate::check_keep(const ServedAdapter& adapter, std::int64_t max_model_len) const {
  TANDEM_TRY(device_->room().check_size(adapter));
  const std::int64_t pages = device_->room().pages_of(adapter);
  const std::int64_t left = pool_->shape().num_pages - device_->holds().kept_pages();
  if (pages + pool_->shape().pages_for(max_model_len) > left) {
    return error(StatusCode::resource_exhausted,
                 "adapter '{}' needs {} pages for good and a sequence of max_model_len up to {}, "
                 "but only {} of {} are not pinned: raise pool_gb, or do not pin it "
                 "(adapter_mode cached pins all)",
                 adapter.name(), pages, pool_->shape().pages_for(max_model_len), left,
                 pool_->shape().num_pages);
  }
  if (device_->holds().num_kept() >= device_->room().num_slots()) {
    return error(StatusCode::resource_exhausted,
                 "all {} places for adapters on the device are taken by pinned ones; raise "
                 "max_device_adapters",
                 device_->room().num_slots());
  }
  return {};
}

// Drains the same adapters in every call, as long as they are there, as they have to become idle.
void AdapterGate::hold_room_for(const ServedAdapter& adapter) {
  std::int64_t wanted = device_->room().pages_of(adapter);
  const std::vector<AdapterLease> candidates = device_->room().candidates();
  std::erase_if(draining_, [&](const AdapterLease& each) {
    return std::find(candidates.begin(), candidates.end(), each) == candidates.end();
  });
  for (const AdapterLease& each : draining_) wanted -= device_->room().pages_of(*each);
  for (const AdapterLease& each : candidates) {
    if (wanted <= 0 && !draining_.empty()) break;
    if (std::find(draining_.begin(), draining_.end(), each) != draining_.end()) continue;
    draining_.push_back(each);
    wanted -= device_->room().pages_of(*each);
  }
  missing_pages_ = std::max<std::int64_t>(wanted, 0);
}

bool AdapterGate::holds_back(const Sequence& sequence) const {
  if (blocked_ == nullptr || !goes_before(*blocked_, sequence)) return false;
  const AdapterLease& adapter = sequence.context().adapter;
  if (adapter != nullptr &&
      std::find(draining_.begin(), draining_.end(), adapter) != draining_.end()) {
    return true;
  }
  if (missing_pages_ == 0) return false;
  const std::int64_t pages = pool_->shape().pages_for(sequence.tokens.size());
  return pool_->available_pages() - pages < missing_pages_;
}

bool AdapterGate::enter(Sequence& sequence) {
  const AdapterLease& adapter = sequence.context().adapter;
  bool may = !holds_back(sequence);
  if (adapter != nullptr) {
    const Residency residency = adapter->residency();
    // The plan also holds for adapters that have arrived meanwhile: prompts that fill a step by
    // themselves are answered sooner one after another than all together.
    may = may && device_->proof(*adapter).status().ok() && has_turn(*adapter) &&
          (residency == Residency::resident ||
           (residency == Residency::loading && starts_before_arrival(mode_) &&
            sequence.replays() == 0));
  }
  if (!may) {
    refused_ = true;
    return false;
  }
  if (adapter != nullptr) {
    device_->holds().enter(*adapter);
    sequence.context().readings_before = adapter->home().num_readings();  // its reading succeeded
  }
  return true;
}

bool AdapterGate::is_in_doubt(const Sequence& sequence) const {
  const AdapterLease& adapter = sequence.context().adapter;
  return adapter != nullptr && !device_->proof(*adapter).is_given();
}

void AdapterGate::begins(const Sequence& sequence) {
  if (sequence.context().adapter != nullptr)
    device_->holds().count_use(*sequence.context().adapter);
}

void AdapterGate::leave(const Sequence& sequence) {
  if (sequence.context().adapter != nullptr) device_->holds().leave(*sequence.context().adapter);
}

}  // namespace tandem
