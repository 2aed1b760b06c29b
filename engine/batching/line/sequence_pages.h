// The pages of one sequence, and how many of its tokens have their keys and values in them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/ids/token_id.h"
#include "engine/memory/block_table.h"
#include "engine/memory/prefix_cache.h"

namespace tandem {

// Empty while the sequence waits. If there is no memory, reserve(), find() and offer() throw, as
// BlockTable and PrefixCache do.
class SequencePages {
 public:
  explicit SequencePages(PagePool& pool) : groups_(&pool.shape().groups), table_(pool) {}

  const BlockTable& table() const { return table_; }
  // Leading tokens whose keys and values are in the pages, or will be after the enqueued steps.
  std::int64_t computed() const { return computed_; }

  // Makes room for `tokens` tokens in total. All or nothing: false if there are too few pages.
  // Windowed layers first give back the pages that no row sees which is not enqueued yet; a step
  // under way may still read them (PagePool). Pages that are not offered yet are kept, so that the
  // prefix cache gets them, too.
  [[nodiscard]] bool reserve(std::int64_t tokens) {
    if (groups_->windowed > 0) give_back_unseen();
    return table_.reserve(tokens);
  }
  // Starts with the cached pages of the longest prefix of `tokens`, whose keys are rotated by
  // rotary_length(). `digest` and `branch` are as in PrefixCache::enter. Requires that it is empty.
  void find(PrefixCache& cache, std::string digest, std::span<const TokenId> tokens,
            PrefixBranch branch = {}) {
    if (rotary_length_ != 0) digest += fmt::format(" rotated by {}", rotary_length_);
    computed_ = cache.enter(prefix_, digest, tokens, table_, std::move(branch));
  }
  // Offers the whole pages of `tokens`, its leading tokens that are computed or planned to be.
  void offer(PrefixCache& cache, std::span<const TokenId> tokens) {
    cache.extend(prefix_, tokens, computed_, table_);
  }
  void advance(std::int64_t tokens) { computed_ += tokens; }
  // The length by which its keys are rotated at least (RotaryLengths::of). Requires that it is
  // empty.
  void rotate_by(std::int64_t length) { rotary_length_ = length; }
  std::int64_t rotary_length() const { return rotary_length_; }

  // Frees all pages; what was offered may be found again.
  void free() {
    table_.clear();
    prefix_.clear();
    computed_ = 0;
  }
  // Likewise, as if the prefix had never been looked for.
  void give_back() {
    table_.clear();
    prefix_.take_back();
    computed_ = 0;
  }

 private:
  void give_back_unseen() {
    std::int64_t pages = groups_->first_seen(computed_) / table_.page_tokens();
    if (prefix_.is_entered()) pages = std::min<std::int64_t>(pages, prefix_.num_pages());
    const auto index = static_cast<std::size_t>(pages);
    prefix_.give_back_before(index);
    table_.give_back_before(index);
  }

  const KvGroups* groups_;
  BlockTable table_;
  PrefixCache::Position prefix_;  // entered while it runs, if there is a prefix cache
  std::int64_t computed_ = 0;
  std::int64_t rotary_length_ = 0;
};

}  // namespace tandem
