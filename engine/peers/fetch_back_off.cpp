#include "engine/peers/fetch_back_off.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr Duration kFirstWait = std::chrono::seconds(3);
constexpr Duration kLongestWait = std::chrono::minutes(5);

}  // namespace

void FetchBackOff::failed(const std::string& digest, const Status& why, TimePoint now) {
  // Removes entries that have not been asked for in a long time.
  std::erase_if(held_, [&](const auto& each) { return now - each.second.until > kLongestWait; });
  Held& held = held_[digest];
  held.why = why;
  held.wait = std::clamp(2 * held.wait, kFirstWait, kLongestWait);
  held.until = now + held.wait;
}

Status FetchBackOff::refusal(const std::string& digest, TimePoint now) const {
  const auto found = held_.find(digest);
  return found == held_.end() || now >= found->second.until ? Status() : found->second.why;
}

}  // namespace tandem
