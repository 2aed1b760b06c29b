// The engines of a source, each of them listened to, and what they say, kept in a Cluster. The
// router and the picker each have one.
//
//   source --which there are--> EngineFollower <--statistics-- StatsWatch, one for each engine
//                                     |
//                                  Cluster, and its owner is told
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/http/client/http_client.h"
#include "base/status.h"
#include "scheduler/cluster/cluster.h"
#include "scheduler/cluster/engine_source.h"
#include "scheduler/cluster/stats_watch.h"

namespace tandem {

// Whose cluster it is. Called on the loop's thread, under guard().
class FollowerHost {
 public:
  virtual ~FollowerHost() = default;
  // Held while the cluster is changed, and by nobody else for long. Owns nothing where the cluster
  // is the loop's alone.
  virtual std::unique_lock<std::mutex> guard() { return {}; }
  virtual void engine_added(EngineIndex /*engine*/) {}
  // It is set aside: whatever it was asked goes elsewhere.
  virtual void engine_lost(EngineIndex /*engine*/, const std::string& /*why*/) {}
  // It is no longer among the engines, and its index may be another's soon.
  virtual void engine_gone(EngineIndex /*engine*/) {}
  // After any of these, and after each report.
  virtual void engines_changed() = 0;
};

struct FollowerOptions {
  WatchTimes watch;
  std::string api_key;  // shown to the engines; empty: none
};

// On the loop's thread, but for begin() and stop().
class EngineFollower {
 public:
  // All that are named outlive it.
  EngineFollower(EventLoop& loop, HttpClient& client, Cluster& cluster, FollowerHost& host,
                 std::unique_ptr<EngineSource> source, FollowerOptions options);
  ~EngineFollower();  // stop()
  EngineFollower(const EngineFollower&) = delete;
  EngineFollower& operator=(const EngineFollower&) = delete;

  void begin();  // once
  // When the loop has ended, or never ran. Takes as long as the source does. Idempotent.
  void stop();
  // The source has told which engines there are, and each of them has been heard, or is known not
  // to answer.
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
  bool told_ = false;                                 // by the source
  std::vector<std::unique_ptr<StatsWatch>> watches_;  // of each engine; null: it is gone
  std::unique_ptr<EngineSource> source_;              // the first to go: it calls
};

}  // namespace tandem
