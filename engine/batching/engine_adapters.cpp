// What the engine thread does for the adapters, from step to step.
#include <optional>
#include <utility>

#include "engine/base/log.h"
#include "engine/batching/engine.h"

namespace tandem {

void Engine::look_after_adapters() {
  if (const Status status = device_tier_->poll(); !status) {
    log::error("loading adapters failed, all requests end: {}", status.message());
    for (Sequence* sequence : scheduler_.all()) {
      end_request(*sequence, FinishReason::failed, status);
    }
    end_if_fatal(status);
  }
  keep_adapters();
  for (const auto& [sequence, why] : gate_->request(scheduler_.waiting())) {
    end_request(*sequence, FinishReason::failed, why);
  }
}

// Adapters that were loaded into what was left between others may lie in more pages than they fill.
// Loaded again, into the room that now is free, they do not. What is short then stays short.
void Engine::help_stuck() {
  constexpr std::int32_t kMostTimes = 3;
  Sequence* sequence = scheduler_.stuck();
  if (sequence == nullptr || device_tier_->counts().loading > 0) return;
  if (++sequence->times_stuck < kMostTimes) {
    device_tier_->evict_idle();
    return;
  }
  const PoolCounts pages = pool_.counts();
  end_request(*sequence, FinishReason::failed,
              error(StatusCode::resource_exhausted,
                    "the request needs {} pages so far; of the pool's {}, {} are taken by pinned "
                    "adapters: ask for less, or raise pool_gb",
                    pool_.pages_for(static_cast<std::int64_t>(sequence->tokens.size())),
                    pool_.num_pages(), pages.adapter));
}

void Engine::keep_adapters() {
  std::erase_if(keeping_, [&](KeepRequest& request) {
    std::optional<Status> done = advance(request);
    if (!done) return false;
    request.done.set_value(*std::move(done));
    return true;
  });
}

std::optional<Status> Engine::advance(const KeepRequest& request) {
  if (request.adapter->residency() == Residency::resident) return Status();
  if (device_tier_->is_kept(*request.adapter)) return std::nullopt;
  if (Status fits = gate_->check_keep(*request.adapter, options_.max_model_len); !fits) return fits;
  switch (device_tier_->start(request.adapter)) {
    case DeviceTier::Start::on_its_way:
      device_tier_->keep(*request.adapter);
      return std::nullopt;
    case DeviceTier::Start::busy:
      return std::nullopt;
    case DeviceTier::Start::not_in_host_tier:
      if (Status failure = adapters_->take_read_failure(*request.adapter); !failure) return failure;
      adapters_->request_read(request.adapter);
      return std::nullopt;
    case DeviceTier::Start::no_room:
      break;
  }
  return error(StatusCode::resource_exhausted,
               "there is no room on the device for adapter '{}': what is there is in use or "
               "pinned; try again, or raise pool_gb",
               request.adapter->name());
}

Status Engine::keep_on_device(const AdapterLease& adapter) {
  std::promise<Status> done;
  std::future<Status> status = done.get_future();
  {
    const std::lock_guard lock(inbox_mutex_);
    if (stopping_) return Status(StatusCode::unavailable, "the server is shutting down");
    keep_inbox_.push_back({adapter, std::move(done)});
  }
  inbox_changed_.notify_one();
  return status.get();  // the engine thread answers, at its end at the latest
}

}  // namespace tandem
