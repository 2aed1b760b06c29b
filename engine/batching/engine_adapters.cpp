// What the engine thread does for the adapters, from step to step.
#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/log.h"
#include "engine/batching/engine.h"

namespace tandem {

// Without workers every mode waits for the weights, as `pipelined` does: the engine works, and says
// so once.
Status Engine::make_handoff(Device& device, const ModelConfig& config, DType dtype) {
  if (options_.adapter_mode < AdapterMode::cpu_assist || options_.handoff.groups.empty()) return {};
  if (!adapters_->host_tier().is_shared()) return {};  // as the log says
  Result<std::unique_ptr<Handoff>> made =
      Handoff::create(device, config, dtype, options_.max_lora_rank,
                      options_.adapter_mode == AdapterMode::cpu_assist, options_.handoff,
                      adapters_->host_tier(), *clock_);
  if (!made) {
    if (made.status().code() == StatusCode::fatal) return made.status();
    log::warning("no CPU workers, adapter_mode works as pipelined: {}", made.status().message());
    return {};
  }
  handoff_ = std::move(made).value();
  return {};
}

void Engine::make_gate() {
  gate_ = std::make_unique<AdapterGate>(options_.adapter_mode, *adapters_, *device_tier_, pool_);
  scheduler_.set_gate(*gate_);
  if (handoff_ == nullptr || options_.adapter_mode != AdapterMode::planned) return;
  gate_->set_plan([this](std::vector<AdapterRows> waiting, std::vector<AdapterRows> loads) {
    for (std::vector<AdapterRows>* list : {&waiting, &loads}) {
      for (AdapterRows& each : *list) {
        each.rows = std::min(each.rows, options_.max_num_batched_tokens);
      }
    }
    return handoff_->admission(waiting, loads, static_cast<std::int32_t>(scheduler_.num_running()),
                               pipeline_->next_step(), *device_tier_);
  });
}

// What arrives while a step runs need not wait for its end: the loads begin.
void Engine::start_loads() {
  for (const auto& [sequence, why] : gate_->request(scheduler_.waiting())) {
    end_request(*sequence, FinishReason::failed, why);
  }
}

// Waiting for the device, the engine thread looks at the inbox as well. A new arrival is a wake-up;
// the end of the step is looked for in short turns, longer ones in long steps.
void Engine::wait_for_arrivals() {
  if (options_.adapter_mode == AdapterMode::cached) return;
  constexpr auto kShortest = std::chrono::microseconds(20);
  constexpr auto kLongest = std::chrono::microseconds(500);
  const TimePoint begin = clock_->now();
  while (!pipeline_->oldest_has_ended()) {
    device_tier_->feed();
    {
      std::unique_lock lock(inbox_mutex_);
      if (stopping_) return;
      const Duration waited = clock_->now() - begin;
      inbox_changed_.wait_for(lock, std::clamp<Duration>(waited / 32, kShortest, kLongest),
                              [this] { return stopping_ || !inbox_.empty(); });
      if (inbox_.empty()) continue;
      for (auto& sequence : inbox_) scheduler_.add(std::move(sequence));
      inbox_.clear();
      waiting_ = scheduler_.num_waiting();
    }
    start_loads();
  }
}

void Engine::look_after_adapters() {
  if (const Status status = device_tier_->poll(); !status) {
    log::error("loading adapters failed, all requests end: {}", status.message());
    for (Sequence* sequence : scheduler_.all()) {
      end_request(*sequence, FinishReason::failed, status);
    }
    end_if_fatal(status);
  }
  keep_adapters();
  start_loads();
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
  if (request.adapter->residency() == Residency::resident) {
    if (Status bad = request.adapter->device_status(); !bad) return bad;
    if (request.adapter->is_proven()) return Status();
    return std::nullopt;  // the store tells when it is
  }
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
