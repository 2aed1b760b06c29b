// What dashboards are told: one picture a second for all that look, made by a thread of its own,
// and none while nobody looks. A viewer is told what has changed since it was told last; one that
// reads slowly skips pictures, and nothing piles up for it.
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
  std::string key;   // names it in its table: a JSON value, as its `json` has it
  std::string json;  // an object, on one line
};

struct DashboardTable {
  std::string name;                // of letters; the same tables in the same order each time
  std::vector<DashboardRow> rows;  // by key, ascending
};

struct DashboardPicture {
  std::string head;  // members of a JSON object without its braces: told each time
  std::vector<DashboardTable> tables;
};

struct DashboardFeedOptions {
  Duration look_every = std::chrono::seconds(1);
  std::size_t most_viewers = 16;
};

// Thread-safe. Outlives its viewers.
class DashboardFeed {
 public:
  // From the feed's own thread. May wait for what it asks, but not without end; what it throws
  // skips one picture.
  using Look = std::function<DashboardPicture()>;
  explicit DashboardFeed(Look look, const DashboardFeedOptions& options = {});
  ~DashboardFeed();
  DashboardFeed(const DashboardFeed&) = delete;
  DashboardFeed& operator=(const DashboardFeed&) = delete;

  // Events without an end: {HEAD, "tables": {NAME: {"whole", "rows": [...], "removed": [key]}}}.
  // `whole`: rows that are not told are gone; the first event is. Null: as many look as may.
  std::unique_ptr<BodySource> watch();

 private:
  class Viewer;
  struct Kept {
    DashboardRow row;
    std::uint64_t version;  // of the picture in which it changed last
  };
  struct Removal {
    std::size_t table;
    std::string key;
    std::uint64_t version;
  };
  // Never changed once it is there.
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
  std::shared_ptr<const State> state_;  // guarded by mutex_, like all below; null: nobody looks
  std::map<std::uint64_t, std::function<void()>> viewers_;  // woken under mutex_
  std::uint64_t next_viewer_ = 0;
  bool stopping_ = false;
  std::thread thread_;  // from the first viewer on
};

}  // namespace tandem
