// Where the last requests went, and why: for people who look on.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

#include "base/clock.h"
#include "scheduler/cluster/cluster.h"

namespace tandem {

// One thread: the router's loop.
class DecisionLog {
 public:
  static constexpr std::size_t kMost = 64;
  struct Entry {
    std::uint64_t number = 0;  // 1, 2, ... since the router was started
    std::int64_t unix_ms = 0;
    std::string model;  // empty: the base
    std::int64_t prompt_tokens = 0;
    std::string engine;  // addresses
    std::string next;    // empty: none, or nobody looked
    RouteReasons reasons;
  };

  // Costs are told of the other engines, too, for as long as somebody has looked of late: a router
  // of many that nobody looks at is not to reckon them for nobody.
  void looked(TimePoint now) { looked_ = now; }
  bool is_looked_at(TimePoint now) const { return looked_ + kLong > now; }
  void add(Entry entry) {
    entry.number = ++last_;
    entries_.push_back(std::move(entry));
    if (entries_.size() > kMost) entries_.pop_front();
  }
  const std::deque<Entry>& entries() const { return entries_; }  // oldest first
  std::uint64_t count() const { return last_; }                  // ever

 private:
  static constexpr Duration kLong = std::chrono::seconds(3);

  TimePoint looked_{};
  std::uint64_t last_ = 0;
  std::deque<Entry> entries_;
};

}  // namespace tandem
