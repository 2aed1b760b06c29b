// The engines chosen for the last requests, and the reasons, for the dashboard.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

#include "base/clock.h"
#include "scheduler/cluster/members/cluster.h"

namespace tandem {

// Used on the router's loop thread.
class DecisionLog {
 public:
  static constexpr std::size_t kMost = 64;
  struct Entry {
    std::uint64_t number = 0;  // 1, 2, ... since the router was started
    std::int64_t unix_ms = 0;
    std::string model;  // empty: the base
    std::int64_t prompt_tokens = 0;
    std::string engine;  // addresses of engines
    std::string next;    // empty: none, or not computed
    RouteReasons reasons;
  };

  // Records that a dashboard looked. Costs of the other engines are computed only while it has
  // looked recently, because they take time with many engines.
  void looked(TimePoint now) { looked_ = now; }
  bool is_looked_at(TimePoint now) const { return looked_ + kLong > now; }
  void add(Entry entry) {
    entry.number = ++last_;
    entries_.push_back(std::move(entry));
    if (entries_.size() > kMost) entries_.pop_front();
  }
  const std::deque<Entry>& entries() const { return entries_; }  // oldest first
  std::uint64_t count() const { return last_; }                  // since the start

 private:
  static constexpr Duration kLong = std::chrono::seconds(3);

  TimePoint looked_{};
  std::uint64_t last_ = 0;
  std::deque<Entry> entries_;
};

}  // namespace tandem
