// KV that was computed once and may be used again: whole pages, found by the tokens up to their end
// and by the adapter that computed them.
//
// A tree for each content digest of an adapter ("" for the base model): a node is one page of
// tokens after its parent's, so that a chain of nodes is a prefix. Nodes are found by a hash of
// (parent, tokens) and compared by both: nothing is ever believed by its hash. An adapter that was
// replaced has another digest, so its successor cannot meet its KV; the same content under two
// names shares.
//
// A page belongs to the pool; the cache holds one reference to it, every block table that shares it
// another. Nodes on the path of a Position stay. The others are given back when the pool asks,
// those that are worth least first, children before their parents.
//
// The engine thread alone uses it. Where there is no memory left enter() and extend() throw, and
// what they were given is as it was, or as after some of the pages; what gives up or forgets never
// allocates. A page may be offered as soon as the step that computes it is
// planned for good: a later step comes after it on the stream, and within the same step its keys
// are written before any row reads them (StepBatch tells which: AttentionSequence::settled).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/token_id.h"
#include "engine/memory/block_table.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/reclaimable.h"

namespace tandem {

class PrefixCache final : public Reclaimable {
  struct Node;
  using Idle = std::set<std::pair<Worth, Node*>>;

 public:
  // How far a sequence has come in the tree; keeps that path. Move-only, empty at first.
  class Position {
   public:
    Position() = default;
    Position(Position&& other) noexcept;
    Position& operator=(Position&& other) noexcept;
    ~Position() { clear(); }

    void clear();
    void take_back();  // the same, as if it had never come past: its uses do not count
    std::int32_t num_pages() const { return depth_; }  // from the start of the sequence

   private:
    friend class PrefixCache;
    PrefixCache* cache_ = nullptr;
    Node* node_ = nullptr;
    std::int32_t depth_ = 0;
  };

  // Registers with the pool. Tests give few hash bits, so that collisions are many.
  explicit PrefixCache(PagePool& pool, int hash_bits = 64);
  ~PrefixCache() override;  // no Position is left

  // Puts `position` after the longest cached chain of whole pages that `tokens` begin with, and
  // lets `table` share its pages. Returns how many tokens that are. Requires both to be empty.
  std::int64_t enter(Position& position, const std::string& digest, std::span<const TokenId> tokens,
                     BlockTable& table);

  // Offers the whole pages of a sequence that are not offered yet. `tokens` are its leading ones
  // whose KV is computed, `settled` of them by steps before the one being planned: where another
  // sequence was faster, such a page of `table` is replaced by the other's, while one that is still
  // to be written waits for the next call. Requires that `position` has been entered.
  void extend(Position& position, std::span<const TokenId> tokens, std::int64_t settled,
              BlockTable& table);

  // Forgets all that no Position keeps.
  void drop_idle();

  std::size_t num_pages() const { return nodes_.size(); }

  std::optional<Worth> least() const override;
  void reclaim_least() override;
  std::int64_t reclaimable_pages() const override { return pool_->counts().cached; }

 private:
  struct Node {
    Node* parent = nullptr;       // null: the root of a digest
    std::uint64_t hash = 0;       // of parent and tokens
    std::vector<TokenId> tokens;  // page_tokens of them
    PageId page;
    std::int32_t children = 0;
    std::int32_t positions = 0;  // that end here
    std::uint64_t uses = 0;      // by Positions that came past
    Worth worth;
    std::string digest;  // roots only
    // Of every node but a root, while it is not in there: so that idling takes no memory.
    Idle::node_type idle;
  };

  std::uint64_t hash_of(const Node* parent, std::span<const TokenId> tokens) const;
  Node* find(const Node* parent, std::uint64_t hash, std::span<const TokenId> tokens) const;
  Node& root_of(const std::string& digest);
  Node& insert(Node& parent, std::uint64_t hash, std::span<const TokenId> tokens, PageId page);
  bool idle_leaf(const Node& node) const;
  void step_to(Position& position, Node& node);
  Worth worth_now(const Node& node) const;
  void leave(Node& node);
  void settle(Node& node);  // after a child or a position has left it
  void drop(Node& node);

  PagePool* pool_;
  std::uint64_t hash_mask_;
  std::map<std::string, std::unique_ptr<Node>> roots_;
  std::unordered_multimap<std::uint64_t, std::unique_ptr<Node>> nodes_;  // by hash
  Idle idle_;  // leaves without positions, by worth
};

}  // namespace tandem
