#include "engine/memory/prefix_cache.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/check.h"

namespace tandem {

PrefixCache::Position::Position(Position&& other) noexcept
    : cache_(other.cache_),
      node_(std::exchange(other.node_, nullptr)),
      depth_(std::exchange(other.depth_, 0)),
      given_back_(std::exchange(other.given_back_, 0)),
      branch_(std::exchange(other.branch_, {})) {}

PrefixCache::Position& PrefixCache::Position::operator=(Position&& other) noexcept {
  if (this != &other) {
    clear();
    cache_ = other.cache_;
    node_ = std::exchange(other.node_, nullptr);
    depth_ = std::exchange(other.depth_, 0);
    given_back_ = std::exchange(other.given_back_, 0);
    branch_ = std::exchange(other.branch_, {});
  }
  return *this;
}

void PrefixCache::Position::clear() {
  Node* node = node_;
  for (std::int32_t index = depth_; index-- > given_back_; node = node->parent) {
    ++node->windowed_uses;
  }
  leave();
}

void PrefixCache::Position::leave() {
  give_back_before(static_cast<std::size_t>(depth_));
  if (node_ != nullptr) cache_->leave(*node_);
  node_ = nullptr;
  depth_ = 0;
  given_back_ = 0;
  branch_ = {};
}

void PrefixCache::Position::give_back_before(std::size_t index) {
  const std::int32_t before = given_back_;
  if (static_cast<std::int32_t>(index) <= before) return;
  given_back_ = static_cast<std::int32_t>(index);
  Node* node = node_;
  for (std::int32_t at = depth_; at-- > before; node = node->parent) {
    if (at < given_back_) cache_->leave_windowed(*node);
  }
}

void PrefixCache::Position::take_back() {
  std::int32_t index = depth_;
  for (Node* node = node_; node != nullptr && node->parent != nullptr; node = node->parent) {
    if (--index >= given_back_) --node->windowed_uses;
    --node->uses;
    node->worth = cache_->worth_now(*node);  // no node of the path is in the idle set
  }
  leave();
}

PrefixCache::PrefixCache(PagePool& pool, int hash_bits)
    : pool_(&pool), hash_mask_(~std::uint64_t{0} >> (64 - hash_bits)) {
  TANDEM_CHECK(hash_bits > 0 && hash_bits <= 64, "{} bits", hash_bits);
  pool.add(*this);
}

PrefixCache::~PrefixCache() {
  drop_idle();
  TANDEM_CHECK(nodes_.empty() && roots_.empty(), "{} cached pages are still in use", nodes_.size());
  pool_->remove(*this);
}

std::int64_t PrefixCache::enter(Position& position, const std::string& digest,
                                std::span<const TokenId> tokens, BlockTable& table,
                                PrefixBranch branch) {
  TANDEM_CHECK(position.node_ == nullptr && table.pages().empty(), "entered twice");
  const auto page_tokens = static_cast<std::size_t>(pool_->shape().page_tokens);
  position.cache_ = this;
  step_to(position, root_of(digest));
  position.branch_ = std::move(branch);
  std::vector<Node*> chain;
  const Node* last = position.node_;
  for (std::size_t begin = 0; begin + page_tokens <= tokens.size(); begin += page_tokens) {
    const auto chunk = tokens.subspan(begin, page_tokens);
    const std::string_view own = position.digest_of(static_cast<std::int64_t>(chain.size()));
    Node* node = find(last, hash_of(last, chunk, own), chunk, own);
    if (node == nullptr) break;
    chain.push_back(node);
    last = node;
  }
  chain.resize(usable(chain));
  const auto found = static_cast<std::int64_t>(chain.size() * page_tokens);
  const KvGroups& groups = pool_->shape().groups;
  position.given_back_ = std::numeric_limits<std::int32_t>::max();  // there are no windowed groups
  if (groups.windowed > 0) {
    position.given_back_ =
        static_cast<std::int32_t>(groups.first_seen(found) / pool_->shape().page_tokens);
  }
  std::vector<PageId> pages(static_cast<std::size_t>(groups.count()));
  for (std::size_t index = 0; index < chain.size(); ++index) {
    Node& node = *chain[index];
    step_to(position, node);
    std::ranges::copy(node.pages, pages.begin());
    if (static_cast<std::int32_t>(index) < position.given_back_) {
      std::fill(pages.begin() + groups.whole, pages.end(), pool_->shape().null_page());
    } else {
      ++node.windowed_uses;
    }
    table.append(pages);
  }
  return found;
}

// The number of leading nodes of `chain` behind which a sequence can go on: the windowed pages of
// the last window before that place are there.
std::size_t PrefixCache::usable(std::span<Node* const> chain) const {
  const KvGroups& groups = pool_->shape().groups;
  if (groups.windowed == 0) return chain.size();
  const std::int64_t page_tokens = pool_->shape().page_tokens;
  std::size_t best = 0;
  std::size_t without = 0;  // nodes up to the last one without windowed pages
  for (std::size_t count = 1; count <= chain.size(); ++count) {
    if (!chain[count - 1]->has_windowed) without = count;
    const auto next = static_cast<std::int64_t>(count) * page_tokens;
    if (static_cast<std::int64_t>(without) <= groups.first_seen(next) / page_tokens) best = count;
  }
  return best;
}

void PrefixCache::extend(Position& position, std::span<const TokenId> tokens, std::int64_t settled,
                         BlockTable& table) {
  TANDEM_CHECK(position.node_ != nullptr, "extended before it was entered");
  const auto page_tokens = static_cast<std::size_t>(pool_->shape().page_tokens);
  for (;;) {
    const auto index = static_cast<std::size_t>(position.depth_);
    const std::size_t end = (index + 1) * page_tokens;
    if (end > tokens.size()) return;
    TANDEM_CHECK(index < table.num_pages(), "{} pages for {} tokens", table.num_pages(), end);
    const auto chunk = tokens.subspan(index * page_tokens, page_tokens);
    const std::string_view own = position.digest_of(position.depth_);
    const std::uint64_t hash = hash_of(position.node_, chunk, own);
    Node* node = find(position.node_, hash, chunk, own);
    if (node == nullptr) {
      node = &insert(*position.node_, hash, chunk, own, table, index);
    } else {
      if (static_cast<std::int64_t>(end) > settled) return;
      share(*node, index, table);
    }
    step_to(position, *node);
  }
}

// Makes the page that the sequence has computed and the node's page of the same content one.
void PrefixCache::share(Node& node, std::size_t index, BlockTable& table) {
  const KvGroups& groups = pool_->shape().groups;
  const bool gives = !node.has_windowed && table.holds_all(index);
  for (std::int32_t group = 0; group < groups.count(); ++group) {
    PageId& page = node.pages[static_cast<std::size_t>(group)];
    if (groups.is_windowed(group) && gives) {
      page = table.pages(group)[index];
      pool_->set_cached(page);
    } else if (!groups.is_windowed(group) || table.holds_all(index)) {
      table.replace(group, index, page);
    }
  }
  node.has_windowed = node.has_windowed || gives;
}

void PrefixCache::drop_idle() {
  for (auto& [hash, node] : nodes_) drop_windowed(*node);
  while (!idle_.empty()) drop(*idle_.begin()->second);
}

std::optional<Worth> PrefixCache::least() const {
  std::optional<Worth> least;
  for (const Idle* idle : {&idle_, &windowed_idle_}) {
    if (idle->empty() || (least && !(idle->begin()->first < *least))) continue;
    least = idle->begin()->first;
  }
  return least;
}

void PrefixCache::reclaim_least() {
  const std::optional<Worth> worth = least();
  TANDEM_CHECK(worth.has_value(), "nothing is idle");
  if (!idle_.empty() && !(*worth < idle_.begin()->first)) return drop(*idle_.begin()->second);
  Node& node = *windowed_idle_.begin()->second;
  // Without its windowed pages, no prefix ends at a leaf.
  idle_leaf(node) ? drop(node) : drop_windowed(node);
}

// The parent's address is part of the hash and differs in every process, so a client cannot
// construct collisions.
std::uint64_t PrefixCache::hash_of(const Node* parent, std::span<const TokenId> tokens,
                                   std::string_view digest) const {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15U;
  auto hash = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(parent));
  if (!digest.empty()) hash = (hash ^ std::hash<std::string_view>()(digest)) * kOdd;
  for (const TokenId token : tokens) {
    hash = (hash ^ static_cast<std::uint32_t>(token)) * kOdd;
    hash ^= hash >> 32;
  }
  return hash & hash_mask_;
}

PrefixCache::Node* PrefixCache::find(const Node* parent, std::uint64_t hash,
                                     std::span<const TokenId> tokens,
                                     std::string_view digest) const {
  const auto [begin, end] = nodes_.equal_range(hash);
  const auto at = std::find_if(begin, end, [&](const auto& entry) {
    const Node& node = *entry.second;
    return node.parent == parent && node.digest == digest &&
           std::ranges::equal(node.tokens, tokens);
  });
  return at == end ? nullptr : at->second.get();
}

PrefixCache::Node& PrefixCache::root_of(const std::string& digest) {
  const auto known = roots_.find(digest);
  if (known != roots_.end()) return *known->second;
  auto root = std::make_unique<Node>();
  root->digest = digest;
  return *roots_.emplace(digest, std::move(root)).first->second;
}

PrefixCache::Node& PrefixCache::insert(Node& parent, std::uint64_t hash,
                                       std::span<const TokenId> tokens, std::string_view digest,
                                       const BlockTable& table, std::size_t index) {
  auto node = std::make_unique<Node>();
  node->parent = &parent;
  node->hash = hash;
  node->tokens.assign(tokens.begin(), tokens.end());
  node->digest = digest;
  const KvGroups& groups = pool_->shape().groups;
  node->has_windowed = groups.windowed > 0 && table.holds_all(index);
  for (std::int32_t group = 0; group < groups.count(); ++group) {
    node->pages.push_back(table.pages(group)[index]);
  }
  node->idle = idle_.extract(idle_.emplace(Worth(), node.get()).first);
  if (groups.windowed > 0) {
    node->windowed_idle = windowed_idle_.extract(windowed_idle_.emplace(Worth(), node.get()).first);
  }
  Node& inserted = *nodes_.emplace(hash, std::move(node))->second;
  for (const PageId page : inserted.pages) {
    if (page != pool_->shape().null_page()) pool_->set_cached(page);
  }
  ++parent.children;  // the position moves on to the child at once, so the parent is not idle
  return inserted;
}

bool PrefixCache::idle_leaf(const Node& node) const {
  return node.children == 0 && node.positions == 0;
}

// Moves the position from a node to its child, or from no node to a root.
void PrefixCache::step_to(Position& position, Node& node) {
  if (node.parent != nullptr) {
    if (node.idle.empty()) node.idle = idle_.extract({node.worth, &node});
    ++node.uses;
    node.worth = worth_now(node);
    --node.parent->positions;  // the parent has a child now, so it is not idle
    if (position.depth_ >= position.given_back_) use_windowed(node);
    ++position.depth_;
  }
  ++node.positions;
  position.node_ = &node;
}

Worth PrefixCache::worth_now(const Node& node) const {
  return pool_->clock().worth(node.uses, pool_->costs().kv_page);
}

void PrefixCache::leave(Node& node) {
  node.worth = worth_now(node);
  --node.positions;
  settle(node);
}

void PrefixCache::settle(Node& node) {
  if (!idle_leaf(node)) return;
  if (node.parent != nullptr) {
    node.idle.value() = {node.worth, &node};
    idle_.insert(std::move(node.idle));
    // Where every layer has a window, the node holds nothing now.
    if (pool_->shape().groups.whole == 0 && !node.has_windowed) drop(node);
  } else {
    roots_.erase(roots_.find(node.digest));
  }
}

// A table holds the node's windowed pages.
void PrefixCache::use_windowed(Node& node) {
  if (node.has_windowed && node.windowed_users == 0 && node.windowed_idle.empty()) {
    node.windowed_idle = windowed_idle_.extract({node.windowed_worth, &node});
  }
  ++node.windowed_users;
}

// A table holds them no longer.
void PrefixCache::leave_windowed(Node& node) {
  if (--node.windowed_users > 0 || !node.has_windowed) return;
  const std::uint64_t uses = node.windowed_uses + (node.children > 1 ? 1 : 0);
  node.windowed_worth = pool_->clock().worth(uses, pool_->costs().kv_page);
  node.windowed_idle.value() = {node.windowed_worth, &node};
  windowed_idle_.insert(std::move(node.windowed_idle));
}

void PrefixCache::drop_windowed(Node& node) {
  if (!node.has_windowed) return;
  if (node.windowed_users == 0) {
    node.windowed_idle = windowed_idle_.extract({node.windowed_worth, &node});
  }
  node.has_windowed = false;
  const KvGroups& groups = pool_->shape().groups;
  for (std::int32_t group = groups.whole; group < groups.count(); ++group) {
    pool_->drop_cached(
        std::exchange(node.pages[static_cast<std::size_t>(group)], pool_->shape().null_page()));
  }
}

void PrefixCache::drop(Node& node) {
  Node& parent = *node.parent;
  idle_.erase({node.worth, &node});
  drop_windowed(node);
  for (std::int32_t group = 0; group < pool_->shape().groups.whole; ++group) {
    pool_->drop_cached(node.pages[static_cast<std::size_t>(group)]);
  }
  // Every use of the child was a use of the parent.
  parent.worth = std::max(parent.worth, node.worth);
  const auto [begin, end] = nodes_.equal_range(node.hash);
  nodes_.erase(
      std::find_if(begin, end, [&](const auto& entry) { return entry.second.get() == &node; }));
  --parent.children;
  settle(parent);
}

}  // namespace tandem
