#include "scheduler/cluster/prefixes/prefix_index.h"

#include <algorithm>
#include <iterator>

namespace tandem {

PrefixIndex::Engine& PrefixIndex::at(EngineIndex engine) {
  if (engines_.size() <= engine.index()) engines_.resize(engine.index() + 1);
  return engines_[engine.index()];
}

std::int64_t PrefixIndex::sent(EngineIndex engine, std::span<const PromptBlock> prompt,
                               std::int64_t tokens) {
  Engine& one = at(engine);
  std::int64_t cached = 0;
  // The longest block comes first, so that it is forgotten before the shorter ones, as in the
  // engine.
  for (std::size_t i = prompt.size(); i-- > 0;) {
    std::vector<Seen>& seen = use(prompt[i].hash).seen;
    const auto place = std::ranges::lower_bound(seen, engine, {}, &Seen::engine);
    if (place != seen.end() && place->engine == engine) {
      if (cached == 0 && is_there(*place)) cached = prompt[i].tokens;
      place->count = one.count;
    } else {
      seen.insert(place, Seen{engine, one.count});
      ++entries_;
    }
  }
  one.count += std::max<std::int64_t>(0, tokens - cached);
  while (!blocks_.empty() && (entries_ > max_entries_ || blocks_.size() > max_entries_)) {
    erase(blocks_.begin());
  }
  return cached;
}

void PrefixIndex::forget(EngineIndex engine) {
  Engine& one = at(engine);
  one.began = ++one.count;
}

// The engines of a block are also engines of each shorter one, because shorter blocks are sent with
// it and forgotten later. So a block with as many engines as there are hits adds no engine.
std::span<const PrefixHit> PrefixIndex::find(std::span<const PromptBlock> prompt) {
  hits_.clear();
  std::size_t looked = 0;
  for (std::size_t i = prompt.size(); i-- > 0 && looked < kMostLooked;) {
    const auto found = by_hash_.find(prompt[i].hash);
    if (found == by_hash_.end()) continue;
    Block& block = *found->second;
    if (block.seen.size() == hits_.size()) continue;
    looked += block.seen.size();
    entries_ -= std::erase_if(block.seen, [&](const Seen& seen) { return !is_there(seen); });
    if (block.seen.empty()) {
      erase(found->second);
    } else if (block.seen.size() > hits_.size()) {
      merge(block, prompt[i].tokens);
    }
  }
  return hits_;
}

void PrefixIndex::merge(const Block& block, std::int64_t tokens) {
  merged_.clear();
  auto hit = hits_.begin();
  for (const Seen& seen : block.seen) {
    while (hit != hits_.end() && hit->engine < seen.engine) merged_.push_back(*hit++);
    if (hit != hits_.end() && hit->engine == seen.engine) {
      merged_.push_back(*hit++);
    } else {
      merged_.push_back({seen.engine, tokens});
    }
  }
  merged_.insert(merged_.end(), hit, hits_.end());
  hits_.swap(merged_);
}

// Returns the block and makes it the most recently sent one.
PrefixIndex::Block& PrefixIndex::use(std::uint64_t hash) {
  const auto found = by_hash_.find(hash);
  if (found != by_hash_.end()) {
    blocks_.splice(blocks_.end(), blocks_, found->second);
    return *found->second;
  }
  blocks_.push_back({.hash = hash, .seen = {}});
  by_hash_[hash] = std::prev(blocks_.end());
  return blocks_.back();
}

void PrefixIndex::erase(Blocks::iterator block) {
  entries_ -= block->seen.size();
  by_hash_.erase(block->hash);
  blocks_.erase(block);
}

}  // namespace tandem
