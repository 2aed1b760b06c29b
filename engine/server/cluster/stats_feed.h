// What an engine tells those who choose among engines: one picture of it, taken anew some 50 times
// a second while anybody watches, by a thread of its own. A watcher is told what has changed since
// it was told last; one that reads slowly skips pictures, and nothing piles up for it.
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
#include "scheduler/report/engine_report.h"

namespace tandem {

// 16 hexadecimal digits that no engine had before.
std::string new_engine_id();

struct StatsFeedOptions {
  Duration look_every = std::chrono::milliseconds(20);  // also the least between two events
  // At the latest, if nothing has changed: watchers who hear nothing for 500 ms may wonder.
  Duration tell_every = std::chrono::milliseconds(480);
};

// Thread-safe. Outlives its watchers; `service` outlives it.
class StatsFeed {
 public:
  using IsDraining = std::function<bool()>;
  StatsFeed(GenerationService& service, EngineIdentity engine, IsDraining is_draining,
            const StatsFeedOptions& options = {});
  ~StatsFeed();
  StatsFeed(const StatsFeed&) = delete;
  StatsFeed& operator=(const StatsFeed&) = delete;

  // One event's JSON, whole.
  std::string look();
  // Events without an end: the first is whole.
  std::unique_ptr<BodySource> watch();

 private:
  class Watcher;
  struct Entry {
    AdapterPresence adapter;
    std::uint64_t version = 0;  // of the picture in which it changed last
  };
  struct Removal {
    std::string name;
    std::uint64_t version = 0;
  };
  // Never changed once it is there.
  struct Picture {
    std::uint64_t version = 0;
    std::string head;              // JSON members of all but the adapters, without braces
    std::string steady;            // of it, what tells whether it has changed
    std::vector<Entry> adapters;   // by name
    std::vector<Removal> removed;  // that some watcher may not know of
  };
  struct Watched {
    std::function<void()> wake;
    std::uint64_t told = 0;  // the version
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

  std::mutex taking_;  // one picture at a time; taken before mutex_
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const Picture> picture_;    // guarded by mutex_, like all below
  std::map<std::uint64_t, Watched> watched_;  // woken under mutex_
  std::uint64_t next_watcher_ = 0;
  bool stopping_ = false;
  std::thread thread_;  // from the first watcher on
};

}  // namespace tandem
