// Follows the engines of a source: listens to each one and keeps their reports in a Cluster. The
// router and the picker each have one.
//
//   source --engines--> EngineFollower <--statistics-- StatsWatch, one for each engine
//                             |
//                          Cluster, and calls to its FollowerHost
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/http/client/http_client.h"
#include "base/status.h"
#include "scheduler/cluster/members/cluster.h"
#include "scheduler/cluster/members/engine_source.h"
#include "scheduler/cluster/members/stats_watch.h"

namespace tandem {

// The owner of the cluster. Called on the loop's thread, under guard().
class FollowerHost {
 public:
  virtual ~FollowerHost() = default;
  // Held while the cluster is changed; other threads hold it only briefly. Owns no mutex where only
  // the loop uses the cluster.
  virtual std::unique_lock<std::mutex> guard() { return {}; }
  virtual void engine_added(EngineIndex /*engine*/) {}
  // The engine is set aside: its requests go to others.
  virtual void engine_lost(EngineIndex /*engine*/, const std::string& /*why*/) {}
  // The engine is removed, and its index may soon be another's.
  virtual void engine_gone(EngineIndex /*engine*/) {}
  // Called after any of these, and after each report.
  virtual void engines_changed() = 0;
};

struct FollowerOptions {
  WatchTimes watch;
  std::string api_key;  // sent to the engines; empty: none
};

// Used on the loop's thread, except for begin() and stop().
class EngineFollower {
 public:
  // All referenced objects must outlive the follower.
  EngineFollower(EventLoop& loop, HttpClient& client, Cluster& cluster, FollowerHost& host,
                 std::unique_ptr<EngineSource> source, FollowerOptions options);
  ~EngineFollower();  // stop()
  EngineFollower(const EngineFollower&) = delete;
  EngineFollower& operator=(const EngineFollower&) = delete;

  void begin();  // once
  // Call it when the loop has ended, or never ran. Takes as long as ending the source. Idempotent.
  void stop();
  // Whether the source has listed its engines, and each has reported or failed to answer.
  bool has_heard_all() const;

 private:
  void set_engines(const std::vector<HttpAddress>& addresses);
  void set_adapters(const std::vector<OfferedAdapter>& adapters);
  void listen_to(EngineIndex engine, const HttpAddress& address);
  void let_go_if_silent(EngineIndex engine);
  Status reported(EngineIndex engine, EngineReport report, bool first);
  void lost(EngineIndex engine, const std::string& why);

  EventLoop& loop_;
  HttpClient& client_;
  Cluster& cluster_;
  FollowerHost& host_;
  const FollowerOptions options_;
  bool told_ = false;                                 // the source has listed engines
  std::vector<std::unique_ptr<StatsWatch>> watches_;  // [engine]; null: removed
  std::unique_ptr<EngineSource> source_;              // destroyed first, as it calls back
};

}  // namespace tandem
