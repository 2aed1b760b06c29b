#include "scheduler/cluster/policies/tandem_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem {
namespace {

// The cost of a missed SLO: ten seconds of waiting. That is more than any request costs that is
// served in time, so misses decide first and time decides between equal numbers of misses.
constexpr double kMissS = 10;
// The weight of a second before the first token: nothing can be read yet, and it is most of the
// time per token of a short answer. The weight trades time to first token against time per token.
// At 2 or less, requests of large ranks at full load queue for the engines that already pad to
// these ranks instead of using engines with room; at 3 or more, engines with separate prompt steps
// stop their batches too often (docs/simulate.md).
constexpr double kFirstTokenWeight = 2.5;
// The share of the requests arriving before an engine's next prompt step that joins this step. A
// larger share makes first tokens faster and the following tokens slower; docs/simulate.md shows
// both extremes.
constexpr double kSharing = 0.4;
// The weight of the latest gap between requests in the running mean.
constexpr double kGapWeight = 0.005;
// The largest factor by which the hash changes the cost for an adapter that no engine has; load
// differs by more.
constexpr double kSettle = 0.01;

// Time until a place in the batch and KV are free: answers end at a constant pace.
double wait_for_place_s(const RouteRequest& request, const EngineView& engine, double answer_s) {
  double wait_s = 0;
  const std::int64_t over = engine.requests() + 1 - engine.max_requests;
  if (over > 0 && engine.max_requests > 0) {
    wait_s = answer_s * static_cast<double>(over) / engine.max_requests;
  }
  const std::int64_t missing = request.kv_tokens() - engine.kv_free_tokens;
  if (missing > 0 && engine.kv_tokens > 0) {
    wait_s = std::max(
        wait_s, answer_s * static_cast<double>(missing) / static_cast<double>(engine.kv_tokens));
  }
  return wait_s;
}

// The load of one batch: all requests, or, if they exceed the places, a batch of average requests.
DecodeLoad in_one_batch(const DecodeLoad& all, const EngineView& engine) {
  if (engine.max_requests <= 0 || all.requests <= engine.max_requests) return all;
  const double share = static_cast<double>(engine.max_requests) / static_cast<double>(all.requests);
  const auto part = [&](std::int64_t sum) {
    return static_cast<std::int64_t>(share * static_cast<double>(sum));
  };
  return {.requests = engine.max_requests,
          .rank_sum = part(all.rank_sum),
          .rank_max = all.rank_max,
          .context_tokens = part(all.context_tokens)};
}

// The remaining time of the current step; half a decode step, if the view has no prediction.
double step_left_s(const RouteRequest& request, const EngineView& engine) {
  if (engine.running.requests == 0) return 0;
  if (engine.step_ends_s < 0) return engine.costs.decode_time_s(engine.running) / 2;
  return std::max(0.0, engine.step_ends_s - request.now_s);
}

struct ColdStart {
  double host_s = 0;    // until the adapter is in host memory
  double device_s = 0;  // until it is on the device
};

ColdStart cold_start(const RouteRequest& request, const EngineView& engine, AdapterTier tier) {
  if (request.rank == 0 || tier == AdapterTier::resident) return {};
  const double queue_s =
      static_cast<double>(engine.link_queue_bytes) / engine.cold.link_bytes_per_s;
  if (tier == AdapterTier::loading) return {0, queue_s};
  double host_s = 0;
  if (tier != AdapterTier::host) {
    host_s = static_cast<double>(engine.fetch_queue_bytes) / engine.cold.fetch_bytes_per_s;
    // An adapter that is being fetched is already in the queue.
    if (tier == AdapterTier::absent) host_s += engine.cold.fetch_time_s(request.adapter_bytes);
  }
  return {host_s, std::max(host_s, queue_s) + engine.cold.load_time_s(request.adapter_bytes)};
}

// Whether the device has room for the request's adapter and those of all waiting requests.
// Otherwise one of these adapters is evicted before it is used and its step waits for it, however
// early it was loaded, unless another running or waiting request uses it (`active`).
bool fits_beside_queue(const RouteRequest& request, const EngineView& engine, std::int32_t active) {
  if (request.rank == 0 || active > 0) return true;
  const double bytes_per_rank = static_cast<double>(request.adapter_bytes) / request.rank;
  return static_cast<double>(engine.adapter_free_bytes) >=
         bytes_per_rank * static_cast<double>(engine.waiting_rank_sum + request.rank);
}

std::int64_t cached_on(std::span<const PrefixHit> prefixes, EngineIndex engine) {
  const auto found = std::ranges::lower_bound(prefixes, engine, {}, &PrefixHit::engine);
  return found == prefixes.end() || found->engine != engine ? 0 : found->tokens;
}

bool on_device(AdapterTier tier) {
  return tier == AdapterTier::loading || tier == AdapterTier::resident;
}

}  // namespace

CostEstimate tandem_estimate(const RouteRequest& request, const EngineView& engine,
                             AdapterTier tier, std::int64_t cached_tokens, std::int32_t active,
                             const PromptSteps& prompt_steps) {
  const StepCosts& costs = engine.costs;
  DecodeLoad exists = engine.all();
  const double exists_s = costs.decode_time_s(in_one_batch(exists, engine));
  const double exists_work_s = costs.decode_work_s(exists);
  const auto running = static_cast<double>(engine.running.requests);
  const auto waiting = static_cast<double>(engine.waiting.requests);
  exists.add(request.decode());
  const double with_s = costs.decode_time_s(in_one_batch(exists, engine));
  // Larger ranks slow all requests, also those that wait for a later batch.
  const double slower_s = costs.decode_work_s(exists) - exists_work_s;
  const double answer = std::max(1.0, request.expected_tokens);

  // At least one token of the prompt is computed: its output is the first token of the answer.
  PrefillLoad own = request.prefill();
  own.tokens =
      std::max<std::int64_t>(1, request.prompt_tokens - std::max<std::int64_t>(0, cached_tokens));
  own.rank_tokens = own.tokens * request.rank;
  PrefillLoad together = engine.waiting;
  together.add(own);
  const double own_work_s = costs.prefill_work_s(together) - costs.prefill_work_s(engine.waiting);
  const double left_s = step_left_s(request, engine);
  // A step for prompts alone stops all running requests. Its prompts share this cost: the waiting
  // ones, this one, and those that arrive before the step begins. Soon after another such step the
  // cost is up to twice as high: many answers have just begun, and the stop adds most to the time
  // per token of short answers.
  double stop_s = own_work_s;
  double sharers = 0;
  if (!engine.mixed_steps) {
    sharers = kSharing * prompt_steps.requests_per_s * left_s;
    if (engine.waiting.requests == 0) {
      const double half_answer_s = std::max(1e-6, answer * with_s / 2);
      stop_s = (costs.step_s / (1 + sharers) + own_work_s) *
               (1 + std::exp(-prompt_steps.since_last_s / half_answer_s));
    }
  }

  const double start_s = left_s + wait_for_place_s(request, engine, answer * exists_s);
  const ColdStart cold = cold_start(request, engine, tier);
  const double begin_s = std::max(start_s, cold.host_s);
  double stall_s = std::max(0.0, cold.device_s - begin_s);
  if (!fits_beside_queue(request, engine, active)) {
    stall_s = std::max(stall_s, engine.cold.load_time_s(request.adapter_bytes));
  }
  if (stall_s > 0) {
    stall_s = std::min(stall_s, engine.cold.cpu_time_s(own.rank_tokens, engine.free_workers));
  }

  CostEstimate estimate;
  const double prefill_s =
      costs.step_time_s(engine.mixed_steps ? engine.running : DecodeLoad{}, together) +
      sharers * own_work_s;
  estimate.ttft_s = begin_s + stall_s + prefill_s;
  const double decode_s = (answer - 1) * with_s;
  estimate.token_s = (estimate.ttft_s + decode_s) / answer;
  // Running requests that end earlier are replaced by others, which lose the same time. A stall
  // also delays waiting requests. So does the prompt while the batch has free places, because it
  // shares a step with their prompts.
  const bool same_step = engine.requests() < engine.max_requests;
  const double others_s = running * (stop_s + stall_s) + waiting * stall_s +
                          (same_step ? kFirstTokenWeight * waiting * own_work_s : 0) +
                          slower_s * answer * (running + waiting);
  // Behind a long queue a load costs nothing now, because it ends before the request begins. But
  // the evicted adapter must be loaded again later, and its step then delays the requests that
  // wait.
  double later_s = 0;
  if (request.rank > 0 && !on_device(tier)) {
    later_s = engine.cold.load_time_s(request.adapter_bytes) * (1 + waiting);
  }
  double misses = 0;
  if (request.slo_token_s > 0) {
    if (estimate.token_s > request.slo_token_s) misses += 1;
    if (with_s > request.slo_token_s && exists_s <= request.slo_token_s)
      misses += running + waiting;
  }
  if (request.slo_ttft_s > 0 && estimate.ttft_s > request.slo_ttft_s) misses += 1;
  estimate.terms = {.wait_s = kFirstTokenWeight * start_s,
                    .cold_s = kFirstTokenWeight * (begin_s - start_s + stall_s),
                    .compute_s = kFirstTokenWeight * prefill_s,
                    .decode_s = decode_s,
                    .others_s = others_s,
                    .later_s = later_s,
                    .misses_s = kMissS * misses};
  estimate.cost_s =
      kFirstTokenWeight * estimate.ttft_s + decode_s + others_s + later_s + kMissS * misses;
  return estimate;
}

Decision TandemPolicy::choose(const RouteRequest& request, std::span<const EngineView> engines) {
  const bool base = !request.adapter.valid();
  if (!base) demand_.count(request.adapter);
  note_arrival(request.now_s, engines.size());
  const double requests_per_s = mean_gap_s_ > 0 ? 1 / mean_gap_s_ : 0;
  Decision best;
  bool best_keeps = false;  // whether `best` keeps the SLO
  const auto offer = [&](const AdapterHold& hold, std::int64_t cached, double factor) {
    const EngineIndex index = hold.engine;
    const CostEstimate estimate =
        tandem_estimate(request, engines[index.index()], hold.tier, cached, hold.active_requests,
                        {.requests_per_s = requests_per_s,
                         .since_last_s = request.now_s - last_request_s_[index.index()]});
    const double cost = estimate.cost_s * factor;
    if (best.chosen() && cost >= best.cost) return;
    best = {index, cost};
    best_keeps = (request.slo_token_s <= 0 || estimate.token_s <= request.slo_token_s) &&
                 (request.slo_ttft_s <= 0 || estimate.ttft_s <= request.slo_ttft_s);
  };
  const auto usable = [&](EngineIndex index) {
    return index.valid() && index.index() < engines.size() && engines[index.index()].accepts;
  };

  std::int64_t replicas = 0;
  for (const AdapterHold& hold : request.holds) {
    if (!usable(hold.engine) || !on_device(hold.tier)) continue;
    ++replicas;
    offer(hold, cached_on(request.prefixes, hold.engine), 1);
  }
  if (replicas > 0 && best_keeps) {
    const double filled = demand_.share(request.adapter) * static_cast<double>(engines.size());
    const double most = std::max(least_replicas_, std::ceil(replicas_per_share_ * filled));
    if (static_cast<double>(replicas) >= most) return note_choice(best, request.now_s);
  }

  for (const AdapterHold& hold : request.holds) {
    if (usable(hold.engine) && !on_device(hold.tier)) {
      offer(hold, cached_on(request.prefixes, hold.engine), 1);
    }
  }
  // All engines, with the cost of a missing adapter; an engine that holds it cannot do better than
  // above.
  const bool settle = !base && request.holds.empty();
  const std::uint64_t hash =
      settle ? mix_hash(seed_, static_cast<std::uint64_t>(request.adapter.value())) : 0;
  auto hit = request.prefixes.begin();
  for (std::size_t i = 0; i < engines.size(); ++i) {
    const EngineIndex index(static_cast<std::int32_t>(i));
    while (hit != request.prefixes.end() && hit->engine < index) ++hit;
    if (!engines[i].accepts) continue;
    const bool cached = hit != request.prefixes.end() && hit->engine == index;
    const double preference = settle ? static_cast<double>(mix_hash(hash, i) >> 11) * 0x1p-53 : 0;
    offer({.engine = index}, cached ? hit->tokens : 0, 1 + kSettle * preference);
  }
  return note_choice(best, request.now_s);
}

// choose() has noted this request already, so that its PromptSteps would tell of this request.
std::optional<CostEstimate> TandemPolicy::explain(const RouteRequest& request,
                                                  const EngineView& engine,
                                                  EngineIndex index) const {
  const AdapterHold hold = request.hold_on(index);
  return tandem_estimate(request, engine, hold.tier, cached_on(request.prefixes, index),
                         hold.active_requests);
}

void TandemPolicy::note_arrival(double now_s, std::size_t engines) {
  if (last_request_s_.size() < engines) {
    last_request_s_.resize(engines, -std::numeric_limits<double>::infinity());
  }
  if (last_arrival_s_ > 0) {
    const double gap_s = std::max(0.0, now_s - last_arrival_s_);
    mean_gap_s_ = mean_gap_s_ == 0 ? gap_s : mean_gap_s_ + kGapWeight * (gap_s - mean_gap_s_);
  }
  last_arrival_s_ = now_s;
}

Decision TandemPolicy::note_choice(const Decision& choice, double now_s) {
  if (choice.chosen()) last_request_s_[choice.engine.index()] = now_s;
  return choice;
}

}  // namespace tandem
