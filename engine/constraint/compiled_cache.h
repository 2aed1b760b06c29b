// A cache of recently compiled constraints, and of those that exceeded a limit together with that
// limit, so that repeated requests cost nothing.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "engine/constraint/compiled_constraint.h"
#include "engine/service/generation.h"

namespace tandem {

// Bounded in bytes: the least recently used entries are evicted first. Not thread-safe.
class CompiledCache {
 public:
  using Key = std::pair<TextConstraint::Kind, std::string>;
  using Outcome = Result<std::shared_ptr<const CompiledConstraint>>;

  explicit CompiledCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  std::optional<Outcome> find(const Key& key) {
    const auto at = entries_.find(key);
    if (at == entries_.end()) return std::nullopt;
    order_.splice(order_.begin(), order_, at->second);
    return order_.front().outcome;
  }

  void add(const Key& key, Outcome outcome) {
    const std::size_t bytes =
        (outcome ? (*outcome)->bytes() : 0) + 2 * key.second.size() + sizeof(Entry);
    if (bytes > max_bytes_ || entries_.contains(key)) return;
    order_.push_front({key, std::move(outcome), bytes});
    entries_[key] = order_.begin();
    bytes_ += bytes;
    while (bytes_ > max_bytes_) {
      bytes_ -= order_.back().bytes;
      entries_.erase(order_.back().key);
      order_.pop_back();
    }
  }

 private:
  struct Entry {
    Key key;
    Outcome outcome;
    std::size_t bytes;
  };
  const std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::list<Entry> order_;  // most recently used first
  std::map<Key, std::list<Entry>::iterator> entries_;
};

}  // namespace tandem
