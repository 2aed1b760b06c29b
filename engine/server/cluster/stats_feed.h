// The stream of an engine's state for routers. While anybody watches, a thread takes a picture of
// the engine some 50 times a second. A watcher receives the changes since its last event; a slow
// watcher skips pictures, so nothing accumulates for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/http/http_message.h"
#include "engine/service/service.h"
#include "scheduler/cluster/report/engine_report.h"

namespace tandem {

// Returns a random id of 16 hexadecimal digits.
std::string new_engine_id();

struct StatsFeedOptions {
  Duration look_every = std::chrono::milliseconds(20);  // also the minimum between two events
  // The maximal time without an event: watchers suspect a failure after 500 ms of silence.
  Duration tell_every = std::chrono::milliseconds(480);
};

// Thread-safe. It must outlive its watchers, and `service` must outlive it.
class StatsFeed {
 public:
  using IsDraining = std::function<bool()>;
  StatsFeed(GenerationService& service, EngineIdentity engine, IsDraining is_draining,
            const StatsFeedOptions& options = {});
  ~StatsFeed();
  StatsFeed(const StatsFeed&) = delete;
  StatsFeed& operator=(const StatsFeed&) = delete;

  // Returns the JSON of one event with the whole state.
  std::string look();
  // Returns an endless stream of events; the first has the whole state.
  std::unique_ptr<BodySource> watch();

 private:
  class Watcher;
  struct Entry {
    AdapterPresence adapter;
    std::uint64_t version = 0;  // of the picture in which the adapter last changed
  };
  struct Removal {
    std::string name;
    std::uint64_t version = 0;
  };
  // Immutable once published.
  struct Picture {
    std::uint64_t version = 0;
    std::string head;              // JSON members except the adapters, without braces
    std::string steady;            // the part of `head` whose changes count
    std::vector<Entry> adapters;   // by name
    std::vector<Removal> removed;  // may be unknown to some watcher
  };
  struct Watched {
    std::function<void()> wake;
    std::uint64_t told = 0;  // version sent last
  };

  std::shared_ptr<const Picture> take_picture(const Picture* before) const;
  void refresh(bool tell_anyway);
  std::shared_ptr<const Picture> picture() const;
  std::uint64_t version() const;
  static std::string event(const Picture& picture, std::uint64_t told, std::uint64_t seq);
  void run();

  GenerationService* service_;
  const EngineIdentity engine_;
  const IsDraining is_draining_;
  const StatsFeedOptions options_;

  std::mutex taking_;  // held while a picture is taken; locked before mutex_
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const Picture> picture_;    // guarded by mutex_, like all below
  std::map<std::uint64_t, Watched> watched_;  // woken with mutex_ held
  std::uint64_t next_watcher_ = 0;
  bool stopping_ = false;
  std::thread thread_;  // started for the first watcher
};

}  // namespace tandem
