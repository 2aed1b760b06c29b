// The router: one loop that follows the engines, chooses among them and sends requests to them.
//
//   server's threads --relay()--> queue -> policy -> engine -> AnswerChannel --> server's threads
//                                   ^                  | it failed
//                                   '------------------'
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/dashboard/latency_history.h"
#include "base/http/client/http_client.h"
#include "base/http/http_message.h"
#include "base/status.h"
#include "scheduler/cluster/members/cluster.h"
#include "scheduler/cluster/members/consolidator.h"
#include "scheduler/cluster/members/engine_follower.h"
#include "scheduler/cluster/members/engine_source.h"
#include "scheduler/cluster/policies/policy.h"
#include "scheduler/cluster/router/decision_log.h"
#include "scheduler/cluster/router/routed_call.h"
#include "scheduler/cluster/router/router_metrics.h"

namespace tandem {

struct RouterOptions {
  std::string policy = "tandem";
  PolicyOptions policy_options;
  RouteLimits limits;
  WatchTimes watch;
  ConsolidationOptions consolidation;
  std::string api_key;      // sent to the engines; empty: none
  bool request_log = true;  // logs a line for each request that ended
};

class Router final : private CallHost, private FollowerHost {
 public:
  // An unknown policy is an error.
  static Result<std::unique_ptr<Router>> create(RouterOptions options,
                                                std::unique_ptr<EngineSource> source);
  ~Router() override;  // stop()
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  void start();  // once
  // Ends the loop; calls under way get no answer. Idempotent. Call it after the server has stopped.
  void stop();

  // Thread-safe. Ends all calls under way with an error that says that the router shuts down.
  void cut();
  // Thread-safe. The response is deferred.
  HttpResponse relay(ClientCall call);
  // Thread-safe. `step` runs on the loop.
  void post(std::function<void()> step);
  bool ready() const { return ready_.load(std::memory_order_relaxed); }  // an engine accepts
  MetricTable& metrics() { return metrics_; }
  const std::string& api_key() const { return options_.api_key; }
  const LatencyHistory& latencies() const { return latencies_; }  // of streams, as seen by clients

  // On the loop.
  const Cluster& cluster() const { return cluster_; }
  HttpClient& client() { return client_; }
  bool rests(EngineIndex engine) const { return consolidator_.rests(engine); }
  DecisionLog& decisions() { return decisions_; }
  std::int64_t num_running() const { return running_; }
  std::int64_t num_waiting() const { return static_cast<std::int64_t>(queue_.size()); }
  // Keeps `job` alive until let_go().
  void keep(const std::shared_ptr<void>& job) { jobs_.emplace(job.get(), job); }
  void let_go(const void* job);
  void expect_adapter(EngineIndex engine, const std::string& address, const std::string& name,
                      bool loaded) {
    cluster_.expect_adapter(engine, address, name, loaded);
  }

 private:
  using CallPointer = std::shared_ptr<RoutedCall>;
  enum class Place { placed, waits, refused };

  Router(RouterOptions options, std::unique_ptr<Policy> policy,
         std::unique_ptr<EngineSource> source);

  // router_engines.cpp
  void note_engines();

  // router_moves.cpp
  void look_soon();
  void consolidate();
  MovableStream as_movable(const RoutedCall& call) const;
  Wanted wanted_elsewhere(const RoutedCall& call) const;
  void move(RoutedCall& call, const StreamMove& to);
  Choice choose(Wanted& wanted, TimePoint at);
  void wake(EngineIndex engine);

  // router.cpp
  bool is_new(TimePoint at);
  void submit(const CallPointer& call);
  Place try_place(RoutedCall& call);
  void note_decision(const RoutedCall& call, EngineIndex engine, TimePoint now);
  void leave_engine(const RoutedCall& call);
  std::string address_of(EngineIndex engine) const {
    return cluster_.engines()[engine.index()].address.text();
  }
  void enqueue(const CallPointer& call, bool first);
  void serve_queue();
  void expire_queue();
  void note_calls();
  void log_end(const RoutedCall& call, const std::string& engine, Outcome outcome) const;

  // CallHost
  const RouteLimits& limits() const override { return options_.limits; }
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  std::unique_ptr<HttpCall> ask(EngineIndex engine, const CallRequest& request,
                                const CallDeadlines& deadlines, CallEvents& events) override;
  void engine_failed(RoutedCall& call, std::string_view why, bool doubted) override;
  EngineRun run_of(EngineIndex engine) const override;
  bool lives(const EngineRun& run) const override;
  void place_again(RoutedCall& call) override;
  void went_on(double silent_s) override { metrics_.observe(router_metrics::kMove, silent_s); }
  void over(RoutedCall& call, Outcome outcome) override;

  // FollowerHost
  void engine_lost(EngineIndex engine, const std::string& why) override;
  void engine_gone(EngineIndex engine) override { wake(engine); }
  void engines_changed() override;

  const RouterOptions options_;
  MetricTable metrics_{router_metrics::kAll};
  std::atomic<bool> ready_{false};
  EventLoop loop_;
  HttpClient client_{loop_};
  Cluster cluster_;
  DecisionLog decisions_;
  LatencyHistory latencies_;
  std::unordered_map<const void*, std::shared_ptr<void>> jobs_;
  std::unordered_map<RoutedCall*, CallPointer> calls_;  // all calls that are not over
  std::deque<CallPointer> queue_;                       // those that wait for an engine
  std::int64_t running_ = 0;                            // those with an engine
  double answer_tokens_;                                // recent mean
  LoopTimer tick_;                                      // runs while queue_ is not empty
  bool ticking_ = false;
  std::optional<TimePoint> new_until_;  // nullopt: engines are known
  Consolidator consolidator_;
  LoopTimer consolidation_;  // unused if off
  EngineFollower follower_;
  std::thread thread_;
};

}  // namespace tandem
