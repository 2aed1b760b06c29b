#include "scheduler/cluster/simulator/simulation.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <queue>
#include <span>

#include "base/limits/bytes_text.h"
#include "scheduler/cluster/prefixes/prefix_index.h"
#include "scheduler/cluster/simulator/summary.h"

namespace tandem {
namespace {

constexpr double kPatienceS = 3600;  // after the last request has arrived
// Only every 64th decision is timed, because reading a clock costs as much as a short decision.
constexpr std::int64_t kTimedEvery = 64;
constexpr std::int64_t kProgressEvery = 4096;
constexpr std::int32_t kMaxEngines = 10'000;

struct ClusterEvent {
  EngineEvent event;
  std::size_t engine = 0;
  std::uint64_t order = 0;  // for equal times: the first created
  bool operator>(const ClusterEvent& other) const {
    return event.at_s != other.event.at_s ? event.at_s > other.event.at_s : order > other.order;
  }
};

// One simulation run. Not movable, because engines keep references to it.
class Cluster {
 public:
  Cluster(const SimulationOptions& options, const Workload& workload, Policy& policy,
          const Clock& clock)
      : options_(options), policy_(policy), clock_(clock), views_(size(options)) {
    slo_s_ = slo_token_s(options, workload);
    mean_answer_ = workload.mean_answer_tokens();
    SimEngineOptions engine;
    engine.machine = options.machine;
    engine.cold_start = options.cold_start;
    engine.mixed_steps = options.mixed_steps;
    engine.expected_answer = mean_answer_;
    engine.line = options.line;
    for (std::size_t i = 0; i < views_.size(); ++i) {
      prefixes_.set_room(EngineIndex(static_cast<std::int32_t>(i)), options.machine.kv_tokens);
      engines_.push_back(std::make_unique<SimEngine>(
          EngineIndex(static_cast<std::int32_t>(i)), engine, index_,
          [this, i](const EngineEvent& event) {
            events_.push({event, i, order_++});
          },
          [this](const ServedRequest& served) { count(served); }));
    }
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  void run(Workload& workload, const std::function<void(double)>& progress) {
    std::optional<SimRequest> next = workload.next();
    std::int64_t turns = 0;
    double last_arrival_s = 0;
    while (next || !events_.empty()) {
      if (++turns % kProgressEvery == 0 && progress) progress(now_s_);
      if (next && (events_.empty() || next->arrival_s <= events_.top().event.at_s)) {
        look_at_queue(next->arrival_s);
        last_arrival_s = now_s_ = next->arrival_s;
        if (counts(*next)) ++arrived_;
        // Requests that wait before the engines come first.
        if (!held_.empty() || !place(*next)) held_.push_back(*next);
        next = workload.next();
        continue;
      }
      const ClusterEvent event = events_.top();
      events_.pop();
      look_at_queue(event.event.at_s);
      now_s_ = event.event.at_s;
      if (!next && now_s_ > last_arrival_s + kPatienceS) return;
      engines_[event.engine]->handle(event.event, now_s_);
      while (std::exchange(freed_, false)) {
        while (!held_.empty() && place(held_.front())) held_.pop_front();
      }
    }
  }

  PolicyResult result() {
    PolicyResult result;
    const auto all = static_cast<double>(std::max<std::int64_t>(arrived_, 1));
    result.requests = arrived_;
    result.given_up = given_up_;
    result.unfinished = arrived_ - served_ - given_up_;
    result.slo_attainment = static_cast<double>(attained_) / all;
    result.satisfaction = satisfaction_ / all;
    result.ttft_attainment = static_cast<double>(in_time_) / all;
    result.cold_share = static_cast<double>(cold_) / all;
    result.ttft_ms = summarise(ttft_ms_);
    result.tpot_ms = summarise(tpot_ms_);
    result.token_ms = summarise(token_ms_);
    result.latency_ms = summarise(latency_ms_);
    std::int64_t prompt_tokens = 0;
    std::int64_t cached_tokens = 0;
    for (const auto& engine : engines_) {
      prompt_tokens += engine->prompt_tokens();
      cached_tokens += engine->cached_tokens();
      result.loads += engine->loads();
      result.fetches += engine->fetches();
    }
    result.cached_share = static_cast<double>(cached_tokens) /
                          static_cast<double>(std::max<std::int64_t>(prompt_tokens, 1));
    result.simulated_s = now_s_;
    result.tokens_per_s = now_s_ > 0 ? tokens_ / now_s_ : 0;
    result.decision_us = summarise(decision_us_).p50;
    result.queue = queue_;
    return result;
  }

 private:
  static std::size_t size(const SimulationOptions& options) {
    return static_cast<std::size_t>(options.engines);
  }
  bool counts(const SimRequest& request) const { return request.arrival_s >= options_.warmup_s; }

  // Records the queue length at the sampling times up to `until_s`, before the event at that time.
  void look_at_queue(double until_s) {
    const double step_s = options_.workload.duration_s / static_cast<double>(kQueueMoments);
    while (std::ssize(queue_) < kQueueMoments) {
      const double at_s = static_cast<double>(queue_.size() + 1) * step_s;
      if (at_s > until_s) return;
      QueueLength now{.at_s = at_s, .all = std::ssize(held_)};
      for (const auto& engine : engines_) {
        now.all += engine->waiting();
        now.longest = std::max(now.longest, engine->waiting());
        now.running += engine->running();
        now.busy += engine->running() > 0 ? 1 : 0;
      }
      queue_.push_back(now);
    }
  }

  bool place(const SimRequest& request) {
    for (std::size_t i = 0; i < engines_.size(); ++i) engines_[i]->refresh_view(views_[i], now_s_);
    RouteRequest route;
    route.now_s = now_s_;
    route.adapter = request.adapter;
    route.rank = request.rank;
    route.adapter_bytes = options_.machine.bytes_per_rank * request.rank;
    route.prompt_tokens = request.prompt_tokens;
    route.expected_tokens = mean_answer_;  // the length of this answer is unknown
    route.slo_token_s = slo_s_;
    route.slo_ttft_s = options_.line.ttft_deadline_s;
    route.holds = holds_of(request.adapter);
    const std::span<const PromptBlock> prompt = prompt_of(request);
    const bool timed = decisions_++ % kTimedEvery == 0;
    const TimePoint begin = timed ? clock_.now() : TimePoint{};
    route.prefixes = prefixes_.find(prompt);
    const Decision decision = policy_.choose(route, views_);
    if (timed) {
      decision_us_.push_back(static_cast<float>(seconds_between(begin, clock_.now()) * 1e6));
    }
    if (!decision.chosen()) return false;
    (void)prefixes_.sent(decision.engine, prompt, route.kv_tokens());
    engines_[decision.engine.index()]->submit(request, now_s_);
    return true;
  }

  // Returns a hold on every engine if no adapter is ever cold.
  std::span<const AdapterHold> holds_of(ClusterAdapterId adapter) {
    const std::span<const AdapterHold> holds = index_.holds(adapter);
    if (options_.cold_start != SimColdStart::cached) return holds;
    everywhere_.clear();
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      everywhere_.push_back({EngineIndex(static_cast<std::int32_t>(i)), AdapterTier::resident, 0});
    }
    for (const AdapterHold& hold : holds) {
      everywhere_[hold.engine.index()].active_requests = hold.active_requests;
    }
    return everywhere_;
  }

  // The prompt's shared prefix as one block; a router splits texts into finer blocks.
  std::span<const PromptBlock> prompt_of(const SimRequest& request) {
    if (request.prefix_tokens == 0 || !options_.tell_prefixes) return {};
    prompt_ = {mix_hash(options_.workload.seed, static_cast<std::uint64_t>(request.prefix)),
               request.prefix_tokens};
    return {&prompt_, 1};
  }

  void count(const ServedRequest& one) {
    freed_ = true;
    if (one.given_up) {
      given_up_ += counts(one.request) ? 1 : 0;
      return;
    }
    const double answer = one.request.answer_tokens;
    tokens_ += answer;
    if (!counts(one.request)) return;
    ++served_;
    const double ttft_s = one.first_token_s - one.request.arrival_s;
    const double latency_s = one.end_s - one.request.arrival_s;
    ttft_ms_.push_back(static_cast<float>(ttft_s * 1e3));
    latency_ms_.push_back(static_cast<float>(latency_s * 1e3));
    token_ms_.push_back(static_cast<float>(latency_s / answer * 1e3));
    if (one.request.answer_tokens > 1) {
      tpot_ms_.push_back(static_cast<float>((one.end_s - one.first_token_s) / (answer - 1) * 1e3));
    }
    attained_ += latency_s / answer <= slo_s_ ? 1 : 0;
    satisfaction_ += std::max(0.0, 1 - ttft_s / options_.satisfied_ttft_s);
    in_time_ += ttft_s <= options_.satisfied_ttft_s ? 1 : 0;
    cold_ += one.cold ? 1 : 0;
  }

  const SimulationOptions& options_;
  Policy& policy_;
  const Clock& clock_;
  double slo_s_ = 0;
  double mean_answer_ = 0;
  AdapterIndex index_;
  std::vector<AdapterHold> everywhere_;  // holds of the request being placed
  PrefixIndex prefixes_;
  PromptBlock prompt_;  // of the request being placed
  std::vector<EngineView> views_;
  std::vector<std::unique_ptr<SimEngine>> engines_;
  std::priority_queue<ClusterEvent, std::vector<ClusterEvent>, std::greater<>> events_;
  std::deque<SimRequest> held_;  // requests for which no engine has room
  std::uint64_t order_ = 0;
  double now_s_ = 0;
  bool freed_ = false;

  std::int64_t arrived_ = 0;
  std::int64_t served_ = 0;
  std::int64_t given_up_ = 0;
  std::int64_t attained_ = 0;
  std::int64_t in_time_ = 0;  // by satisfied_ttft_s
  std::int64_t cold_ = 0;
  double satisfaction_ = 0;
  double tokens_ = 0;
  std::vector<QueueLength> queue_;
  std::vector<float> ttft_ms_, tpot_ms_, token_ms_, latency_ms_;
  std::int64_t decisions_ = 0;
  std::vector<float> decision_us_;
};

}  // namespace

double slo_token_s(const SimulationOptions& options, const Workload& workload) {
  const StepCosts& costs = options.machine.costs;
  const DecodeLoad alone{.requests = 1};
  const PrefillLoad prompt{
      .requests = 1,
      .tokens = static_cast<std::int64_t>(std::lround(workload.mean_prompt_tokens()))};
  const double answer = workload.mean_answer_tokens();
  const double latency_s = costs.prefill_time_s(prompt) + (answer - 1) * costs.decode_time_s(alone);
  return options.slo_factor * latency_s / answer;
}

double capacity_per_s(const SimulationOptions& options, const Workload& workload) {
  const SimMachine& machine = options.machine;
  const double kv = workload.mean_prompt_tokens() + workload.mean_answer_tokens();
  const double rows =
      std::min<double>(machine.max_requests, static_cast<double>(machine.kv_tokens) / kv);
  const DecodeLoad decode{
      .requests = static_cast<std::int64_t>(rows),
      .rank_sum = static_cast<std::int64_t>(rows * workload.mean_rank()),
      .rank_max = workload.largest_rank(),
      .context_tokens = static_cast<std::int64_t>(
          rows * (workload.mean_prompt_tokens() + workload.mean_answer_tokens() / 2))};
  const auto prompt_tokens = static_cast<std::int64_t>(std::lround(workload.mean_prompt_tokens()));
  const PrefillLoad prompt{.requests = 1,
                           .tokens = prompt_tokens,
                           .rank_tokens = static_cast<std::int64_t>(
                               static_cast<double>(prompt_tokens) * workload.mean_rank()),
                           .rank_max = workload.largest_rank()};
  const double ended = rows / workload.mean_answer_tokens();  // per step
  const double prompt_s = options.mixed_steps ? machine.costs.prefill_work_s(prompt)
                                              : machine.costs.prefill_time_s(prompt);
  return options.engines * ended / (machine.costs.decode_time_s(decode) + ended * prompt_s);
}

Status check_options(const SimulationOptions& options) {
  if (options.engines < 1 || options.engines > kMaxEngines) {
    return invalid("engines must be 1 to {}", kMaxEngines);
  }
  if (!(options.slo_factor > 0) || !(options.satisfied_ttft_s > 0)) {
    return invalid("the factor of the SLO and the TTFT of satisfaction must be above zero");
  }
  if (options.line.adapter_clusters < 0 || options.line.ttft_deadline_s < 0) {
    return invalid("clusters of adapters and the deadline must not be below nought");
  }
  if (options.warmup_s < 0 || options.warmup_s >= options.workload.duration_s) {
    return invalid("the warm-up of {} s leaves nothing of {} s to count", options.warmup_s,
                   options.workload.duration_s);
  }
  const std::vector<std::int32_t>& ranks = options.workload.ranks;
  const std::int32_t largest = ranks.empty() ? 0 : *std::max_element(ranks.begin(), ranks.end());
  const std::int64_t bytes = options.machine.bytes_per_rank * largest;
  if (bytes > options.machine.adapter_bytes || bytes > options.machine.host_bytes) {
    return invalid(
        "an adapter of rank {} ({}) does not fit a tier of machine {}; leave it out of ranks",
        largest, size_text(static_cast<std::uint64_t>(bytes)), options.machine.name);
  }
  return {};
}

Result<PolicyResult> simulate_policy(const std::string& policy, const SimulationOptions& options,
                                     const AzureTrace* trace, const Clock& clock,
                                     const std::function<void(double)>& progress) {
  TANDEM_TRY(check_options(options));
  TANDEM_ASSIGN(Workload workload, Workload::create(options.workload, trace));
  PolicyOptions tuning;
  tuning.seed = options.workload.seed;
  tuning.average_answer_tokens = workload.mean_answer_tokens();
  tuning.slo_decode_s = slo_token_s(options, workload);
  TANDEM_ASSIGN(const std::unique_ptr<Policy> chosen, make_policy(policy, tuning));
  const TimePoint begin = clock.now();
  Cluster cluster(options, workload, *chosen, clock);
  cluster.run(workload, progress);
  PolicyResult result = cluster.result();
  result.policy = policy;
  result.wall_s = seconds_between(begin, clock.now());
  return result;
}

}  // namespace tandem
