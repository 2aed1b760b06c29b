#include "scheduler/cluster/simulator/sim_engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

// The number of requests that cannot begin yet and may be skipped in a step.
constexpr std::size_t kMostPassedOver = 256;

}  // namespace

Result<SimColdStart> parse_cold_start(std::string_view text) {
  if (text == "cached") return SimColdStart::cached;
  if (text == "on_demand") return SimColdStart::on_demand;
  if (text == "async") return SimColdStart::async;
  if (text == "cpu_assist") return SimColdStart::cpu_assist;
  return invalid("cold start '{}' is unknown; there are cached, on_demand, async, cpu_assist",
                 text);
}

SimEngine::SimEngine(EngineIndex self, const SimEngineOptions& options, AdapterIndex& index,
                     Schedule schedule, Served served)
    : self_(self),
      options_(options),
      index_(index),
      schedule_(std::move(schedule)),
      served_(std::move(served)),
      device_(options.machine.adapter_bytes),
      host_(options.machine.host_bytes),
      prefixes_(options.machine.kv_tokens),
      line_(options.line) {}

void SimEngine::submit(const SimRequest& request, double now_s) {
  const bool cold = options_.cold_start != SimColdStart::cached &&
                    device_.state(request.adapter) != AdapterCache::State::here;
  index_.add_active(request.adapter, self_, 1);
  line_.add(request, cold);
  kv_promised_ += promised_kv_of(request);
  changed_ = true;
  // With on_demand no load begins before the step that needs it.
  if (options_.cold_start == SimColdStart::async ||
      options_.cold_start == SimColdStart::cpu_assist) {
    bring(request, now_s);
  }
  if (!stepping_) start_step(now_s);
}

void SimEngine::bring(const SimRequest& request, double now_s) {
  const ClusterAdapterId adapter = request.adapter;
  if (host_.state(adapter) != AdapterCache::State::absent) host_.touch(adapter);
  if (device_.state(adapter) != AdapterCache::State::absent) {
    device_.touch(adapter);
    return;
  }
  switch (host_.state(adapter)) {
    case AdapterCache::State::here:
      begin_load(adapter, bytes_of(request), now_s);
      return;
    case AdapterCache::State::arriving:
      return;
    case AdapterCache::State::absent:
      break;
  }
  const bool room = host_.begin(adapter, bytes_of(request), [&](ClusterAdapterId gone) {
    if (device_.state(gone) == AdapterCache::State::absent) {
      index_.set_tier(gone, self_, AdapterTier::absent);
    }
  });
  if (!room) return;
  const ColdStartCosts& cold = options_.machine.cold;
  disk_free_s_ = std::max(disk_free_s_, now_s) + cold.fetch_time_s(bytes_of(request));
  fetching_.emplace_back(adapter, bytes_of(request));
  index_.set_tier(adapter, self_, AdapterTier::fetching);
  ++fetches_;
  changed_ = true;
  schedule_({disk_free_s_, EngineEvent::What::fetched, adapter});
}

void SimEngine::begin_load(ClusterAdapterId adapter, std::int64_t bytes, double now_s) {
  const bool room = device_.begin(adapter, bytes, [&](ClusterAdapterId gone) {
    const bool kept = host_.state(gone) == AdapterCache::State::here;
    index_.set_tier(gone, self_, kept ? AdapterTier::host : AdapterTier::absent);
  });
  if (!room) return;
  host_.pin(adapter);
  link_free_s_ = std::max(link_free_s_, now_s) + options_.machine.cold.load_time_s(bytes);
  loading_.emplace_back(adapter, link_free_s_);
  index_.set_tier(adapter, self_, AdapterTier::loading);
  ++loads_;
  changed_ = true;
  schedule_({link_free_s_, EngineEvent::What::loaded, adapter});
}

void SimEngine::fetched(ClusterAdapterId adapter, double now_s) {
  host_.arrived(adapter);
  index_.set_tier(adapter, self_, AdapterTier::host);
  const auto found = std::find_if(fetching_.begin(), fetching_.end(),
                                  [&](const auto& one) { return one.first == adapter; });
  TANDEM_CHECK(found != fetching_.end(), "adapter {} was not fetched", adapter.value());
  const std::int64_t bytes = found->second;
  fetching_.erase(found);
  begin_load(adapter, bytes, now_s);
}

void SimEngine::loaded(ClusterAdapterId adapter) {
  device_.arrived(adapter);
  host_.unpin(adapter);
  index_.set_tier(adapter, self_, AdapterTier::resident);
  std::erase_if(loading_, [&](const auto& one) { return one.first == adapter; });
  std::erase_if(cold_rows_, [&](const auto& one) { return one.first == adapter; });
  changed_ = true;
}

void SimEngine::handle(const EngineEvent& event, double now_s) {
  switch (event.what) {
    case EngineEvent::What::step_end:
      end_step(now_s);
      return;
    case EngineEvent::What::fetched:
      fetched(event.adapter, now_s);
      break;
    case EngineEvent::What::loaded:
      loaded(event.adapter);
      break;
  }
  if (!stepping_) start_step(now_s);
}

SimEngine::Readiness SimEngine::readiness(const SimRequest& request, double now_s) {
  if (options_.cold_start == SimColdStart::cached) return Readiness::resident;
  if (device_.state(request.adapter) == AdapterCache::State::absent) bring(request, now_s);
  switch (device_.state(request.adapter)) {
    case AdapterCache::State::here:
      return Readiness::resident;
    case AdapterCache::State::arriving:
      return options_.cold_start == SimColdStart::async ? Readiness::not_yet : Readiness::cold;
    case AdapterCache::State::absent:
      break;
  }
  return Readiness::not_yet;
}

bool SimEngine::fits(const SimRequest& request) const {
  const std::size_t requests = running_.size() + beginning_.size();
  if (requests == 0) return true;  // a single request may exceed the limits
  return static_cast<std::int64_t>(requests) < options_.machine.max_requests &&
         kv_taken_ + kv_of(request) <= options_.machine.kv_tokens &&
         (beginning_.empty() ||
          beginning_load_.tokens + to_compute(request) <= options_.machine.step_tokens);
}

void SimEngine::give_up_late(double now_s) {
  for (const SimWaiting& late : line_.give_up_late(now_s, running_.empty())) {
    kv_promised_ -= promised_kv_of(late.request);
    index_.add_active(late.request.adapter, self_, -1);
    served_({.request = late.request, .end_s = now_s, .cold = late.cold, .given_up = true});
  }
}

void SimEngine::arrange_line() {
  in_batch_.clear();
  for (const auto& [adapter, requests] : batch_) in_batch_.push_back(adapter);
  line_.arrange(in_batch_);
}

void SimEngine::begin_requests(double now_s) {
  arrange_line();
  std::size_t passed_over = 0;
  while (passed_over < std::min(line_.list().size(), kMostPassedOver)) {
    const SimRequest request = line_.list()[passed_over].request;
    if (!fits(request)) return;
    const Readiness ready = readiness(request, now_s);
    if (ready == Readiness::not_yet) {
      ++passed_over;
      continue;
    }
    beginning_.push_back({.request = request, .cold = line_.admit(passed_over).cold});
    if (options_.line.adapter_clusters > 0) ++batch_[adapter_number(request)];
    const std::int32_t tokens = to_compute(request);
    const std::int64_t rank_tokens = std::int64_t{tokens} * request.rank;
    beginning_load_.add(
        {.requests = 1, .tokens = tokens, .rank_tokens = rank_tokens, .rank_max = request.rank});
    beginning_rank_sum_ += request.rank;
    beginning_context_ += request.prompt_tokens;
    prompt_tokens_ += request.prompt_tokens;
    cached_tokens_ += request.prompt_tokens - tokens;
    kv_taken_ += kv_of(request);
    if (request.prefix_tokens > 0) prefixes_.enter(request.prefix, request.prefix_tokens);
    prefixes_.make_room(kv_taken_);
    if (options_.cold_start != SimColdStart::cached) device_.pin(request.adapter);
    if (ready == Readiness::cold) {
      beginning_cold_ += rank_tokens;
      cold_rows_.emplace_back(request.adapter, request.rank);
    }
  }
}

double SimEngine::cold_stall_s(double now_s) const {
  double load_s = 0;
  std::int64_t rank_tokens = beginning_cold_;
  for (const auto& [adapter, rank] : cold_rows_) {
    const auto found = std::find_if(loading_.begin(), loading_.end(),
                                    [id = adapter](const auto& one) { return one.first == id; });
    if (found == loading_.end()) continue;
    load_s = std::max(load_s, found->second - now_s);
    rank_tokens += rank;  // the row of a decode step; negligible beside a prompt
  }
  if (options_.cold_start == SimColdStart::on_demand) return load_s;
  return std::min(load_s, options_.machine.cold.cpu_time_s(rank_tokens, options_.machine.workers));
}

void SimEngine::start_step(double now_s) {
  give_up_late(now_s);
  begin_requests(now_s);
  step_began_s_ = now_s;
  stepping_ = !running_.empty() || !beginning_.empty();
  changed_ = true;
  if (!stepping_) return;
  decoding_ = !running_.empty() && (options_.mixed_steps || beginning_.empty());
  DecodeLoad decode;
  if (decoding_) {
    decode = {.requests = running_ranks_.requests(),
              .rank_sum = running_ranks_.sum(),
              .rank_max = running_ranks_.max(),
              .context_tokens = context_tokens_};
  }
  const double expected_s = options_.machine.costs.step_time_s(decode, beginning_load_);
  double step_s = expected_s;
  if (!cold_rows_.empty()) step_s += cold_stall_s(now_s);
  expected_end_s_ = now_s + expected_s;
  schedule_({now_s + step_s, EngineEvent::What::step_end, {}});
}

void SimEngine::end_step(double now_s) {
  stepping_ = false;
  if (decoding_) {
    ++decode_steps_;
    context_tokens_ += static_cast<std::int64_t>(running_.size());
    while (!running_.empty() && running_.top().last_row <= decode_steps_) {
      const Active active = running_.top();
      running_.pop();
      running_ranks_.remove(active.request.rank);
      context_tokens_ -= kv_of(active.request);
      finish(active, now_s);
    }
  }
  for (Active& active : beginning_) {
    active.first_token_s = now_s;
    line_.saw_prefill(now_s - step_began_s_, active.request.prompt_tokens);
    if (active.request.answer_tokens <= 1) {
      finish(active, now_s);
      continue;
    }
    active.last_row = decode_steps_ + active.request.answer_tokens - 1;
    running_ranks_.add(active.request.rank);
    context_tokens_ += active.request.prompt_tokens + 1;
    running_.push(active);
  }
  beginning_.clear();
  beginning_load_ = {};
  beginning_rank_sum_ = 0;
  beginning_context_ = 0;
  beginning_cold_ = 0;
  start_step(now_s);
}

void SimEngine::finish(const Active& active, double now_s) {
  const SimRequest& request = active.request;
  kv_taken_ -= kv_of(request);
  if (request.prefix_tokens > 0) {
    prefixes_.leave(request.prefix, kv_of(request) - request.prefix_tokens);
    prefixes_.make_room(kv_taken_);
  }
  kv_promised_ -= promised_kv_of(request);
  if (options_.cold_start != SimColdStart::cached) {
    device_.unpin(request.adapter);
    const auto row =
        std::find(cold_rows_.begin(), cold_rows_.end(), std::pair(request.adapter, request.rank));
    if (row != cold_rows_.end()) cold_rows_.erase(row);
  }
  if (options_.line.adapter_clusters > 0 && --batch_[adapter_number(request)] == 0) {
    batch_.erase(adapter_number(request));
  }
  index_.add_active(request.adapter, self_, -1);
  served_({request, active.first_token_s, now_s, active.cold});
}

void SimEngine::refresh_view(EngineView& view, double now_s) {
  const SimMachine& machine = options_.machine;
  view.link_queue_bytes = static_cast<std::int64_t>(std::max(0.0, link_free_s_ - now_s) *
                                                    machine.cold.link_bytes_per_s);
  view.fetch_queue_bytes = static_cast<std::int64_t>(std::max(0.0, disk_free_s_ - now_s) *
                                                     machine.cold.fetch_bytes_per_s);
  if (!std::exchange(changed_, false)) return;
  view.mixed_steps = options_.mixed_steps;
  view.step_ends_s = expected_end_s_;
  view.costs = machine.costs;
  view.cold = machine.cold;
  view.cold.cpu_assist = options_.cold_start == SimColdStart::cpu_assist;
  view.max_requests = machine.max_requests;
  view.running = {.requests = running_ranks_.requests() + beginning_load_.requests,
                  .rank_sum = running_ranks_.sum() + beginning_rank_sum_,
                  .rank_max = std::max(running_ranks_.max(), beginning_load_.rank_max),
                  .context_tokens = context_tokens_ + beginning_context_};
  view.waiting = line_.load();
  view.waiting_rank_sum = line_.rank_sum();
  view.kv_tokens = machine.kv_tokens;
  view.kv_free_tokens = machine.kv_tokens - kv_promised_;
  view.adapter_free_bytes = device_.available_bytes();
  // A worker computes for all cold groups of a step, so one more group gets a share.
  view.free_workers = machine.workers / static_cast<std::int32_t>(1 + cold_rows_.size());
}

}  // namespace tandem
