// The picker with its engines: it follows their statistics on its own event loop; any thread makes
// decisions, under one lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/http/client/http_client.h"
#include "base/status.h"
#include "scheduler/cluster/members/engine_follower.h"
#include "scheduler/cluster/members/engine_source.h"
#include "scheduler/cluster/members/stats_watch.h"
#include "scheduler/cluster/picker/pick_stream.h"
#include "scheduler/cluster/picker/picker.h"
#include "scheduler/cluster/picker/picker_metrics.h"
#include "scheduler/cluster/policies/policy.h"

namespace tandem {

struct PickerOptions {
  std::string policy = "tandem";
  PolicyOptions policy_options;
  PickLimits limits;
  WatchTimes watch;
  std::string api_key;  // sent to the engines; empty: none
  std::size_t max_body_bytes = 8U << 20;
};

// Life: create -> start -> stop. Thread-safe otherwise.
class PickerHost final : public PickDesk, private FollowerHost {
 public:
  // An unknown policy is an error.
  static Result<std::unique_ptr<PickerHost>> create(PickerOptions options,
                                                    std::unique_ptr<EngineSource> source);
  ~PickerHost() override;  // stop()
  PickerHost(const PickerHost&) = delete;
  PickerHost& operator=(const PickerHost&) = delete;

  // Call it once. The source's addresses must be numeric (endpoint.h). `readiness` is called, from
  // any thread and under the lock, when the first engine accepts requests and when none does any
  // more.
  void start(std::function<void(bool ready)> readiness = {});
  void stop();  // idempotent

  Pick pick(const PickRequest& request) override;
  void served(PickId id, std::string_view endpoint) override;
  void over(PickId id, bool answered) override;

  bool ready() const { return ready_.load(std::memory_order_relaxed); }
  MetricTable& metrics() { return metrics_; }
  const PickerOptions& options() const { return options_; }
  void look(const std::function<void(const Picker&)>& see) const;  // under the lock

 private:
  PickerHost(PickerOptions options, std::unique_ptr<Policy> policy,
             std::unique_ptr<EngineSource> source);
  void note_engines();  // under the lock
  void count_refusal(int status);

  // FollowerHost
  std::unique_lock<std::mutex> guard() override { return std::unique_lock(mutex_); }
  void engine_added(EngineIndex engine) override { picker_.engine_added(engine); }
  void engine_gone(EngineIndex engine) override { picker_.engine_gone(engine); }
  void engines_changed() override;

  const PickerOptions options_;
  MetricTable metrics_{picker_metrics::kAll};
  std::function<void(bool)> readiness_;
  std::atomic<bool> ready_{false};
  mutable std::mutex mutex_;
  Picker picker_;  // guarded by mutex_
  EventLoop loop_;
  HttpClient client_{loop_};
  EngineFollower follower_;
  std::thread thread_;
};

}  // namespace tandem
