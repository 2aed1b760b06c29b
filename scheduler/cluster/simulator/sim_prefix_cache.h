// KV that an engine keeps of finished prompts while no request needs the room: the prefixes that
// requests share, as whole units, and the rest of each request, which is not used again but takes
// room until it is evicted. The least recently used is evicted first.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>

namespace tandem {

// Not thread-safe.
class SimPrefixCache {
 public:
  explicit SimPrefixCache(std::int64_t room_tokens) : room_tokens_(room_tokens) {}

  bool has(std::int64_t prefix) const { return prefixes_.contains(prefix); }
  // A request with the prefix begins: the prefix is present from now on and stays while such
  // requests run. Each of them counts as having its own KV for it.
  void enter(std::int64_t prefix, std::int64_t tokens);
  // A request with the prefix ends and leaves `own_tokens` of its own KV.
  void leave(std::int64_t prefix, std::int64_t own_tokens);
  // Evicts until `taken_tokens` of running requests fit.
  void make_room(std::int64_t taken_tokens);

 private:
  static constexpr std::int64_t kNoPrefix = -1;
  struct Idle {
    std::int64_t prefix = kNoPrefix;
    std::int64_t tokens = 0;
  };
  using IdleList = std::list<Idle>;
  struct Prefix {
    std::int64_t tokens = 0;
    std::int32_t users = 0;
    IdleList::iterator place;  // while users is 0
  };
  void add_idle(std::int64_t prefix, std::int64_t tokens);

  std::int64_t room_tokens_;
  std::int64_t idle_tokens_ = 0;
  IdleList idle_;  // the least recently used first
  std::unordered_map<std::int64_t, Prefix> prefixes_;
};

}  // namespace tandem
