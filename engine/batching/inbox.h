// The data that the engine thread exchanges with all others: its requests, whether it goes on, and
// its counts.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/adapters/adapter_store.h"
#include "engine/batching/line/sequence.h"
#include "engine/service/service.h"
#include "scheduler/cluster/view/engine_view.h"

namespace tandem {

// An adapter that is to be kept on the device, with a promise for the thread that waits for it.
struct KeepRequest {
  AdapterLease adapter;
  std::uint64_t readings_before = 0;  // readings of its folder that had ended (AdapterHome)
  std::promise<Status> done;
};

class Inbox {
 public:
  // At most `max_queue` sequences may wait. `stats`: the counts until the engine thread publishes
  // any.
  Inbox(std::int32_t max_queue, const EngineStats& stats) : max_queue_(max_queue), stats_(stats) {}

  // Functions for any thread.

  // Makes `n` sequences if that many are accepted; their numbers in the order of arrival begin at
  // `first`. No other thread submits meanwhile, and the engine thread sees either all of them or
  // none.
  using MakeSequences = std::function<std::vector<std::unique_ptr<Sequence>>(std::uint64_t first)>;
  Status submit(std::int32_t n, const MakeSequences& make);
  // Waits until the engine thread keeps it on the device, or has an error.
  Status keep_on_device(const AdapterLease& adapter);
  // Makes the engine thread look at its adapters again.
  void tell_news();
  void drain();   // accepts no more requests
  void resume();  // unless the thread is stopping
  void stop();    // also ends the engine thread
  // Ends the engine after a fatal status, when a device has failed for good; ignores other
  // statuses.
  void end_if_fatal(const Status& status);
  // Ends the engine for this reason. Does not allocate.
  void end(Status fatal) noexcept;
  bool is_draining() const;
  Status failure() const;  // the reason for which it ended
  EngineStats stats() const;
  // The view of the last publish(), with later arrivals added; `step_ends_s` counts from `now`.
  EngineView view(TimePoint now) const;

  // Functions for the engine thread.

  struct Arrivals {
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<KeepRequest> keep;
    bool news = false;  // of adapters
    bool empty() const { return sequences.empty() && keep.empty() && !news; }
  };
  // Takes everything that has arrived.
  Arrivals take();
  // Waits until take() would return something, or the thread is to end, or `longest` has passed.
  // Returns false in the last case.
  bool wait(std::optional<Duration> longest);
  bool is_stopping() const;
  // Waits until the thread is to end, or `longest` has passed.
  void wait_for_stop(Duration longest);
  void publish(const EngineStats& stats);
  // `step_ends`: the end of the step in flight; no value: unknown.
  void publish(const EngineView& view, std::optional<TimePoint> step_ends);

 private:
  bool has_news() const { return stopping_ || !arrivals_.empty(); }

  const std::int32_t max_queue_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Arrivals arrivals_;        // guarded by mutex_, like all below
  std::size_t waiting_ = 0;  // sequences that were taken and do not run
  std::uint64_t next_arrival_ = 0;
  bool draining_ = false;
  bool stopping_ = false;
  Status failure_;
  EngineStats stats_;
  EngineView view_;
  std::optional<TimePoint> step_ends_;
};

}  // namespace tandem
