// The data stream for dashboards: one picture a second for all viewers, made by a thread of its
// own, and none without viewers. A viewer gets the changes since its last event; one that reads
// slowly skips pictures, so nothing queues up for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/http/http_message.h"

namespace tandem {

struct DashboardRow {
  std::string key;   // identifies it in its table: a JSON value, as in its `json`
  std::string json;  // an object, on one line
};

struct DashboardTable {
  std::string name;                // letters only; tables come in the same order each time
  std::vector<DashboardRow> rows;  // by key, ascending
};

struct DashboardPicture {
  std::string head;  // members of a JSON object without its braces; sent each time
  std::vector<DashboardTable> tables;
};

struct DashboardFeedOptions {
  Duration look_every = std::chrono::seconds(1);
  std::size_t most_viewers = 16;
};

// Thread-safe. Outlives its viewers.
class DashboardFeed {
 public:
  // Called on the feed's own thread. It may block, but not for ever; an exception skips one
  // picture.
  using Look = std::function<DashboardPicture()>;
  explicit DashboardFeed(Look look, const DashboardFeedOptions& options = {});
  ~DashboardFeed();
  DashboardFeed(const DashboardFeed&) = delete;
  DashboardFeed& operator=(const DashboardFeed&) = delete;

  // An endless stream of events: {HEAD, "tables": {NAME: {"whole", "rows": [...], "removed":
  // [key]}}}. `whole`, set in the first event: all other rows are gone. Null: too many viewers.
  std::unique_ptr<BodySource> watch();

 private:
  class Viewer;
  struct Kept {
    DashboardRow row;
    std::uint64_t version;  // the picture of its last change
  };
  struct Removal {
    std::size_t table;
    std::string key;
    std::uint64_t version;
  };
  // Immutable once it is published.
  struct State {
    std::uint64_t version = 0;
    std::string head;
    std::vector<std::string> names;
    std::vector<std::vector<Kept>> tables;
    std::deque<Removal> removed;  // of the last kRemembered pictures
  };
  static constexpr std::uint64_t kRemembered = 8;

  static std::shared_ptr<const State> next(const State* before, DashboardPicture picture);
  static std::string event(const State& state, std::uint64_t told);
  void run();

  const Look look_;
  const DashboardFeedOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const State> state_;  // guarded by mutex_, as are those below; null: no viewers
  std::map<std::uint64_t, std::function<void()>> viewers_;  // called under mutex_
  std::uint64_t next_viewer_ = 0;
  bool stopping_ = false;
  std::thread thread_;  // runs from the first viewer on
};

}  // namespace tandem
