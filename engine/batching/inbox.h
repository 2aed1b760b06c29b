// What crosses between the engine thread and all others: what is asked of it, whether it goes on,
// and what it counts.
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
#include "scheduler/policies/engine_view.h"

namespace tandem {

// An adapter that is to be on the device for good, and who waits to hear that it is.
struct KeepRequest {
  AdapterLease adapter;
  std::uint64_t readings_before = 0;  // of its folder that had ended (AdapterHome)
  std::promise<Status> done;
};

class Inbox {
 public:
  // `max_queue` sequences may wait. `stats`: what is told before the engine thread tells anything.
  Inbox(std::int32_t max_queue, const EngineStats& stats) : max_queue_(max_queue), stats_(stats) {}

  // Any thread.

  // Makes `n` sequences, if so many are let in: their numbers in the order of arrival begin at
  // `first`. Nobody else submits meanwhile, and the engine thread sees none before all are there.
  using MakeSequences = std::function<std::vector<std::unique_ptr<Sequence>>(std::uint64_t first)>;
  Status submit(std::int32_t n, const MakeSequences& make);
  // Waits until the engine thread has it on the device for good, or knows why not.
  Status keep_on_device(const AdapterLease& adapter);
  // Of adapters: the engine thread has something to look at.
  void tell_news();
  void drain();   // nothing more is let in
  void resume();  // but for a thread that is to end
  void stop();    // and the engine thread ends
  // A device that has failed for good ends the engine; any other status does nothing.
  void end_if_fatal(const Status& status);
  // The engine ends for this reason. Takes no memory.
  void end(Status fatal) noexcept;
  bool is_draining() const;
  Status failure() const;  // that ended it
  EngineStats stats() const;
  // As publish() told it, with what has come since; `step_ends_s` from `now` on.
  EngineView view(TimePoint now) const;

  // The engine thread.

  struct Arrivals {
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<KeepRequest> keep;
    bool news = false;  // of adapters
    bool empty() const { return sequences.empty() && keep.empty() && !news; }
  };
  // All there is.
  Arrivals take();
  // Until take() would bring something, or the thread is to end; at most for so long. Returns
  // whether that is so.
  bool wait(std::optional<Duration> longest);
  bool is_stopping() const;
  // Until the thread is to end, whatever comes; at most for so long.
  void wait_for_stop(Duration longest);
  void publish(const EngineStats& stats);
  // `step_ends`: of the step under way; nothing: not known.
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
