// What an engine keeps of prompts that are over, in KV that nobody needs now: the beginnings that
// requests share, whole, and what was of one request alone, which nobody asks for again but which
// takes room until its turn to leave comes. The least recently used leaves first.
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
  // A request with it begins: it is there from now on, and stays while requests with it run. Of
  // these each is taken to have KV of its own for it.
  void enter(std::int64_t prefix, std::int64_t tokens);
  // One of them ends, and leaves `own_tokens` behind.
  void leave(std::int64_t prefix, std::int64_t own_tokens);
  // So much of the room is taken by those that run.
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
    IdleList::iterator place;  // without users
  };
  void add_idle(std::int64_t prefix, std::int64_t tokens);

  std::int64_t room_tokens_;
  std::int64_t idle_tokens_ = 0;
  IdleList idle_;  // the least recently used first
  std::unordered_map<std::int64_t, Prefix> prefixes_;
};

}  // namespace tandem
