// Cached KV for reuse: whole pages, looked up by all tokens up to the end of the page and by the
// adapter that computed them.
//
// There is one tree for each content digest of an adapter ("" for the base model). A node is one
// page of tokens that follows its parent's, so a chain of nodes is a prefix. An adapter that acts
// only from a later token on has no tree: its pages branch off the base model's. Nodes are found by
// a hash of (parent, tokens) and then compared in full, so a hash collision is harmless. A replaced
// adapter has another digest, so its successor cannot reuse its KV; the same content under two
// names is shared.
//
// A page belongs to the pool; the cache holds one reference to it, and every block table that
// shares it another. Nodes on the path of a Position are kept, if not all of their pages. Other
// nodes are returned on the pool's request, the lowest worth first, children before their parents.
//
// A node has a page for each group of layers (KvGroups). Those of windowed groups may be returned
// before the node: a sequence that goes on after a prefix needs them for the prefix's last window
// only. A prefix is found up to the last place where they are all there. Of a chain that was
// computed at once, most will never be such a place, so they are worth least; those behind which
// sequences went different ways, or at which one ended, count as used.
//
// Only the engine thread uses it. If there is no memory, enter() and extend() throw and leave their
// arguments as they were, or as after some of the pages; functions that drop nodes never allocate.
// A page may be offered as soon as the step that computes it is definitely planned: a later step
// comes after it on the stream, and within the same step its keys are written before any row reads
// them (StepBatch provides AttentionSequence::settled for this).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids/token_id.h"
#include "engine/memory/block_table.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/reclaimable.h"

namespace tandem {

// Where a sequence's pages leave the tree in which they begin: page `page` and those behind it are
// found under `digest` only. An empty digest: they stay in the tree.
struct PrefixBranch {
  std::string digest;
  std::int64_t page = 0;
};

class PrefixCache final : public Reclaimable {
  struct Node;
  using Idle = std::set<std::pair<Worth, Node*>>;

 public:
  // A sequence's position in the tree; it keeps the path from the root. Move-only, empty at first.
  class Position {
   public:
    Position() = default;
    Position(Position&& other) noexcept;
    Position& operator=(Position&& other) noexcept;
    ~Position() { clear(); }

    void clear();
    void take_back();  // like clear(), but also undoes the uses that it counted
    // The sequence gives back the pages of windowed groups before page `index`.
    void give_back_before(std::size_t index);
    bool is_entered() const { return node_ != nullptr; }
    std::int32_t num_pages() const { return depth_; }  // from the start of the sequence

   private:
    friend class PrefixCache;
    void leave();
    // The digest that a page has in addition to its parents', if any.
    std::string_view digest_of(std::int64_t page) const {
      return page == branch_.page ? std::string_view(branch_.digest) : std::string_view();
    }
    PrefixCache* cache_ = nullptr;
    Node* node_ = nullptr;
    std::int32_t depth_ = 0;
    std::int32_t given_back_ = 0;  // of the path's pages: the table has windowed ones from here on
    PrefixBranch branch_;
  };

  // Registers with the pool. Tests pass few hash bits to provoke collisions.
  explicit PrefixCache(PagePool& pool, int hash_bits = 64);
  ~PrefixCache() override;  // requires that no Position is left

  // Moves `position` to the end of the longest cached chain of whole pages that is a prefix of
  // `tokens` and can be continued, and makes `table` share its pages. Returns the number of tokens
  // in them. The position keeps to `branch`, which begins in the tree of `digest`. Requires both to
  // be empty.
  std::int64_t enter(Position& position, const std::string& digest, std::span<const TokenId> tokens,
                     BlockTable& table, PrefixBranch branch = {});

  // Offers the whole pages of a sequence that are not offered yet. `tokens` are its leading tokens
  // with computed KV; the first `settled` of them were computed by steps before the one being
  // planned. If another sequence has offered the same page before, the page of `table` is replaced
  // by that one, or takes the place of one that was returned; a page that is still to be written
  // waits for the next call. Requires that `position` has been entered.
  void extend(Position& position, std::span<const TokenId> tokens, std::int64_t settled,
              BlockTable& table);

  // Drops all nodes that no Position keeps, and the windowed pages of the others.
  void drop_idle();

  std::size_t num_pages() const { return nodes_.size(); }  // of a sequence, whatever its groups

  std::optional<Worth> least() const override;
  void reclaim_least() override;
  std::int64_t reclaimable_pages() const override { return pool_->counts().cached; }

 private:
  struct Node {
    Node* parent = nullptr;       // null for the root of a digest
    std::uint64_t hash = 0;       // hash of parent, tokens and digest
    std::vector<TokenId> tokens;  // page_tokens of them
    std::vector<PageId> pages;    // by group; windowed groups may have null pages, all or none
    std::int32_t children = 0;
    std::int32_t positions = 0;  // number of Positions at this node
    std::uint64_t uses = 0;      // number of Positions that have passed it
    Worth worth;
    bool has_windowed = false;        // the pages of windowed groups are there
    std::int32_t windowed_users = 0;  // number of Positions whose tables hold these
    std::uint64_t windowed_uses = 0;  // prefixes found, and sequences that ended, which saw them
    Worth windowed_worth;
    std::string digest;  // set in roots, and in the first nodes of branches
    // The node for idle_, kept here while it is not in there, so that adding it to idle_ does not
    // allocate. Empty in roots.
    Idle::node_type idle;
    Idle::node_type windowed_idle;  // likewise for windowed_idle_
  };

  std::uint64_t hash_of(const Node* parent, std::span<const TokenId> tokens,
                        std::string_view digest) const;
  Node* find(const Node* parent, std::uint64_t hash, std::span<const TokenId> tokens,
             std::string_view digest) const;
  Node& root_of(const std::string& digest);
  Node& insert(Node& parent, std::uint64_t hash, std::span<const TokenId> tokens,
               std::string_view digest, const BlockTable& table, std::size_t index);
  std::size_t usable(std::span<Node* const> chain) const;
  void share(Node& node, std::size_t index, BlockTable& table);
  bool idle_leaf(const Node& node) const;
  void step_to(Position& position, Node& node);
  Worth worth_now(const Node& node) const;
  void leave(Node& node);
  void settle(Node& node);  // called after a child or a position has left the node
  void drop(Node& node);
  void use_windowed(Node& node);
  void leave_windowed(Node& node);
  void drop_windowed(Node& node);

  PagePool* pool_;
  std::uint64_t hash_mask_;
  std::map<std::string, std::unique_ptr<Node>> roots_;
  std::unordered_multimap<std::uint64_t, std::unique_ptr<Node>> nodes_;  // by hash
  Idle idle_;           // leaves without positions, by worth
  Idle windowed_idle_;  // nodes whose windowed pages no table holds, by windowed_worth
};

}  // namespace tandem
