#include "scheduler/cluster/simulator/sim_prefix_cache.h"

#include <iterator>

#include "base/check.h"

namespace tandem {

void SimPrefixCache::enter(std::int64_t prefix, std::int64_t tokens) {
  const auto [found, fresh] = prefixes_.try_emplace(prefix);
  Prefix& one = found->second;
  if (fresh) {
    one.tokens = tokens;
  } else if (one.users == 0) {
    idle_.erase(one.place);
    idle_tokens_ -= one.tokens;
  }
  ++one.users;
}

void SimPrefixCache::leave(std::int64_t prefix, std::int64_t own_tokens) {
  const auto found = prefixes_.find(prefix);
  TANDEM_CHECK(found != prefixes_.end() && found->second.users > 0, "prefix {} is unused", prefix);
  add_idle(kNoPrefix, own_tokens);  // added after the prefix, so it leaves before it
  Prefix& one = found->second;
  if (--one.users > 0) return;
  add_idle(prefix, one.tokens);
  one.place = std::prev(idle_.end());
}

void SimPrefixCache::add_idle(std::int64_t prefix, std::int64_t tokens) {
  idle_.push_back({prefix, tokens});
  idle_tokens_ += tokens;
}

void SimPrefixCache::make_room(std::int64_t taken_tokens) {
  while (!idle_.empty() && idle_tokens_ + taken_tokens > room_tokens_) {
    const Idle oldest = idle_.front();
    idle_.pop_front();
    idle_tokens_ -= oldest.tokens;
    if (oldest.prefix != kNoPrefix) prefixes_.erase(oldest.prefix);
  }
}

}  // namespace tandem
