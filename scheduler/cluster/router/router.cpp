#include "scheduler/cluster/router/router.h"

#include <algorithm>
#include <utility>

#include "base/log/log.h"
#include "scheduler/cluster/members/engine_search.h"
#include "scheduler/cluster/router/call_trace.h"
#include "scheduler/cluster/router/route_error.h"

namespace tandem {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(25);
// Waiting calls that are tried when engines change: the first ones may wait for an adapter whose
// engines are full and must not hold up the others.
constexpr std::size_t kLook = 64;
constexpr std::size_t kShortQueue = 8;
constexpr double kAnswerMemory = 0.02;
constexpr std::size_t kMostOfModel = 128;  // bytes of a client's model name in the log

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::served:
      return "served";
    case Outcome::refused:
      return "refused";
    case Outcome::failed:
      return "failed";
    case Outcome::gone:
      return "gone";
  }
  return "";
}

}  // namespace

Result<std::unique_ptr<Router>> Router::create(RouterOptions options,
                                               std::unique_ptr<EngineSource> source) {
  TANDEM_ASSIGN(auto policy, make_policy(options.policy, options.policy_options));
  return std::unique_ptr<Router>(
      new Router(std::move(options), std::move(policy), std::move(source)));
}

Router::Router(RouterOptions options, std::unique_ptr<Policy> policy,
               std::unique_ptr<EngineSource> source)
    : options_(std::move(options)),
      cluster_(std::move(policy)),
      answer_tokens_(options_.policy_options.average_answer_tokens),
      tick_(loop_,
            [this] {
              ticking_ = false;
              serve_queue();
              expire_queue();
            }),
      consolidator_(options_.consolidation),
      consolidation_(loop_, [this] { consolidate(); }),
      follower_(loop_, client_, cluster_, *this, std::move(source),
                {.watch = options_.watch, .api_key = options_.api_key}) {}

Router::~Router() {
  stop();
}

void Router::start() {
  look_soon();
  new_until_ = now() + options_.limits.first_report_timeout;
  thread_ = std::thread([this] { loop_.run(); });
  follower_.begin();
}

void Router::stop() {
  loop_.stop();
  if (thread_.joinable()) thread_.join();
  follower_.stop();
  jobs_.clear();
  queue_.clear();
  calls_.clear();
}

void Router::cut() {
  loop_.post([this] {
    std::vector<CallPointer> all;  // refuse() changes calls_
    for (const auto& [key, call] : calls_) all.push_back(call);
    for (const CallPointer& call : all) {
      call->refuse({503,
                    "The router is shutting down, and this answer was not complete within "
                    "drain_timeout_s; ask again",
                    "draining", 1});
    }
  });
}

void Router::post(std::function<void()> step) {
  loop_.post(std::move(step));
}

void Router::let_go(const void* job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  // Destroyed later, because the job itself is the caller.
  loop_.post([job = std::move(found->second)] {});
  jobs_.erase(found);
}

HttpResponse Router::relay(ClientCall call) {
  const auto channel = std::make_shared<AnswerChannel>();
  if (!options_.api_key.empty()) {
    call.headers.emplace_back("Authorization", "Bearer " + options_.api_key);
  }
  CallHost& host = *this;
  const auto routed = std::make_shared<RoutedCall>(host, std::move(call), channel);
  const std::weak_ptr<RoutedCall> weak = routed;
  channel->on_gone([this, weak] {
    loop_.post([weak] {
      if (const auto alive = weak.lock()) alive->client_gone();
    });
  });
  channel->on_drained([this, weak] {
    loop_.post([weak] {
      if (const auto alive = weak.lock()) alive->client_drained();
    });
  });
  loop_.post([this, routed] { submit(routed); });
  return AnswerChannel::defer(channel);
}

// Whether the router has just started and does not know its engines or their models yet.
bool Router::is_new(TimePoint at) {
  if (new_until_ && (at >= *new_until_ || follower_.has_heard_all())) new_until_.reset();
  return new_until_.has_value();
}

void Router::submit(const CallPointer& call) {
  calls_.emplace(call.get(), call);
  if (queue_.empty()) {
    if (try_place(*call) == Place::waits) enqueue(call, false);
    return;
  }
  // First come, first served. A short queue, perhaps waiting for an engine to come back, is tried
  // at once and blocks no later call; a long one waits for the next change of engines.
  enqueue(call, false);
  if (queue_.size() <= kShortQueue) serve_queue();
}

Router::Place Router::try_place(RoutedCall& call) {
  Wanted& wanted = call.wanted();
  const double most = static_cast<double>(call.call().max_tokens);
  wanted.expected_tokens = most > 0 ? std::min(most, answer_tokens_) : answer_tokens_;
  const TimePoint begin = now();
  const Choice choice = choose(wanted, begin);
  metrics_.observe(router_metrics::kDecision, seconds_between(begin, now()));
  switch (choice.kind) {
    case Choice::Kind::engine: {
      note_decision(call, choice.engine, begin);
      const SentId sent = cluster_.sent(choice.engine, wanted, begin);
      ++running_;
      call.go(choice.engine, sent);
      note_calls();
      return Place::placed;
    }
    case Choice::Kind::wait:
      return Place::waits;
    case Choice::Kind::changed:
      call.refuse(weights_gone());
      return Place::refused;
    case Choice::Kind::nobody:
    case Choice::Kind::unknown:
      break;
  }
  if (is_new(begin)) return Place::waits;
  // The last engine may have lost only its connection and be back in a moment.
  if (choice.kind == Choice::Kind::nobody && !wanted.avoid_strictly &&
      EngineSearch(cluster_, wanted).may_be_back(begin - options_.limits.lost_patience)) {
    return Place::waits;
  }
  // An engine had the request: it may come back, or another may come.
  if (call.progress().recovering() && !wanted.avoid_strictly) return Place::waits;
  call.refuse(choice.kind == Choice::Kind::nobody ? nobody_accepts()
                                                  : unknown_model(wanted.name()));
  return Place::refused;
}

// Called before the cluster counts the request as sent.
void Router::note_decision(const RoutedCall& call, EngineIndex engine, TimePoint now) {
  DecisionLog::Entry entry;
  const auto unix_time = std::chrono::system_clock::now().time_since_epoch();
  entry.unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(unix_time).count();
  entry.model = call.call().model;
  entry.prompt_tokens = call.wanted().prompt_tokens;
  entry.engine = address_of(engine);
  entry.reasons = cluster_.reasons(call.wanted(), engine, decisions_.is_looked_at(now), now);
  if (const EngineIndex next = entry.reasons.next; next.valid()) {
    entry.next = address_of(next);
  }
  decisions_.add(std::move(entry));
}

// The call no longer counts on its engine.
void Router::leave_engine(const RoutedCall& call) {
  --running_;
  cluster_.ended(call.progress().engine, call.progress().sent);
}

void Router::enqueue(const CallPointer& call, bool first) {
  if (!first && queue_.size() >= options_.limits.max_queue) {
    return call->refuse({429, "Too many requests are waiting for an engine", "queue_full", 1});
  }
  if (first) {
    queue_.push_front(call);
  } else {
    queue_.push_back(call);
  }
  note_calls();
  if (!std::exchange(ticking_, true)) tick_.start(kTick);
}

void Router::serve_queue() {
  for (std::size_t i = 0, looked = 0; i < queue_.size() && looked < kLook; ++looked) {
    const CallPointer call = queue_[i];
    // Placing a call may end others and change the queue, so its place is looked up again.
    if (calls_.contains(call.get()) && try_place(*call) == Place::waits) {
      ++i;
      continue;
    }
    const auto place = std::find(queue_.begin(), queue_.end(), call);
    if (place != queue_.end()) queue_.erase(place);
  }
  note_calls();
}

void Router::expire_queue() {
  const TimePoint at = now();
  std::vector<CallPointer> late;
  for (const CallPointer& call : queue_) {
    const Duration patience = call->progress().recovering() ? options_.limits.recover_timeout
                                                            : options_.limits.queue_timeout;
    if (at - call->progress().waiting_since >= patience) late.push_back(call);
  }
  for (const CallPointer& call : late) {
    if (EngineSearch(cluster_, call->wanted()).has_others_only()) {
      call->refuse(weights_gone());
    } else if (call->progress().recovering()) {
      call->refuse({503, "No engine could continue the request in time", "engines_failed", 1});
    } else {
      call->refuse({429, "No engine had room for the request in time", "queue_timeout", 1});
    }
  }
  if (!queue_.empty() && !std::exchange(ticking_, true)) tick_.start(kTick);
}

void Router::note_calls() {
  metrics_.set(router_metrics::kWaiting, static_cast<std::int64_t>(queue_.size()));
  metrics_.set(router_metrics::kRunning, running_);
}

void Router::log_end(const RoutedCall& call, const std::string& engine, Outcome outcome) const {
  const bool traced = call.call().trace.valid();
  const std::string trace = traced ? trace_hex(call.call().trace.trace) : std::string();
  const log::Field fields[] = {
      {"id", call.call().request_id},
      {"path", call.call().path},
      {"outcome", name_of(outcome)},
      {"model", std::string_view(call.call().model).substr(0, kMostOfModel)},
      {"engine", engine},
      {"engines_asked", std::int64_t{call.progress().engines_asked}},
      {"tokens", static_cast<std::int64_t>(call.num_tokens())},
      {"total_s", seconds_between(call.progress().came_at, now())},
      {"trace_id", trace},
  };
  log::info_with("request", std::span(fields).first(std::size(fields) - (traced ? 0 : 1)));
}

std::unique_ptr<HttpCall> Router::ask(EngineIndex engine, const CallRequest& request,
                                      const CallDeadlines& deadlines, CallEvents& events) {
  return client_.call(cluster_.engines()[engine.index()].address, request, deadlines, events);
}

void Router::engine_failed(RoutedCall& call, std::string_view why, bool doubted) {
  const std::string engine = address_of(call.progress().engine);
  log::warning("{}: {}; the router looks for another engine for request {}", engine, why,
               call.call().id);
  metrics_.count(router_metrics::kFailovers,
                 {{"engine", engine}, {"kind", call.progress().began ? "continuation" : "retry"}});
  leave_engine(call);
  if (doubted) cluster_.doubt(call.progress().engine);
  note_engines();
}

void Router::place_again(RoutedCall& call) {
  const auto found = calls_.find(&call);
  if (found == calls_.end()) return;
  const CallPointer pointer = found->second;
  // The call came before all that wait now.
  if (try_place(call) == Place::waits) enqueue(pointer, true);
}

void Router::over(RoutedCall& call, Outcome outcome) {
  const auto found = calls_.find(&call);
  if (found == calls_.end()) return;
  const CallPointer pointer = std::move(found->second);
  calls_.erase(found);
  std::string engine;
  if (call.progress().engine.valid()) {
    engine = address_of(call.progress().engine);
    leave_engine(call);
  } else {
    const auto place = std::find(queue_.begin(), queue_.end(), pointer);
    if (place != queue_.end()) queue_.erase(place);
  }
  metrics_.count(router_metrics::kRequests, {{"engine", engine}, {"outcome", name_of(outcome)}});
  if (options_.request_log) log_end(call, engine, outcome);
  trace_end(call, name_of(outcome), now());
  if (outcome == Outcome::served && call.progress().first_told_at) {
    const double tokens = static_cast<double>(call.num_tokens()) /
                          static_cast<double>(std::max<std::size_t>(1, call.call().choices));
    const TimePoint first = *call.progress().first_told_at;
    std::optional<double> each;
    if (tokens > 1) each = seconds_between(first, now()) / (tokens - 1);
    latencies_.add(now(), seconds_between(call.progress().came_at, first), each);
  }
  if (outcome == Outcome::served && call.num_tokens() > 0) {
    answer_tokens_ += kAnswerMemory * (static_cast<double>(call.num_tokens()) - answer_tokens_);
  }
  note_calls();
  // The call is destroyed later, as it is the caller. Then there may be room for a waiting one.
  loop_.post([this, pointer] {
    if (!queue_.empty()) serve_queue();
  });
}

}  // namespace tandem
