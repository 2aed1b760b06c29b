#include "engine/memory/prefix_cache.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {

PrefixCache::Position::Position(Position&& other) noexcept
    : cache_(other.cache_),
      node_(std::exchange(other.node_, nullptr)),
      depth_(std::exchange(other.depth_, 0)) {}

PrefixCache::Position& PrefixCache::Position::operator=(Position&& other) noexcept {
  if (this != &other) {
    clear();
    cache_ = other.cache_;
    node_ = std::exchange(other.node_, nullptr);
    depth_ = std::exchange(other.depth_, 0);
  }
  return *this;
}

void PrefixCache::Position::clear() {
  if (node_ != nullptr) cache_->leave(*node_);
  node_ = nullptr;
  depth_ = 0;
}

void PrefixCache::Position::take_back() {
  for (Node* node = node_; node != nullptr && node->parent != nullptr; node = node->parent) {
    --node->uses;
    node->worth = cache_->worth_now(*node);  // no node of the path is in the idle set
  }
  clear();
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
                                std::span<const TokenId> tokens, BlockTable& table) {
  TANDEM_CHECK(position.node_ == nullptr && table.pages().empty(), "entered twice");
  const auto page_tokens = static_cast<std::size_t>(pool_->shape().page_tokens);
  position.cache_ = this;
  step_to(position, root_of(digest));
  std::vector<PageId> pages;
  for (std::size_t begin = 0; begin + page_tokens <= tokens.size(); begin += page_tokens) {
    const auto chunk = tokens.subspan(begin, page_tokens);
    Node* node = find(position.node_, hash_of(position.node_, chunk), chunk);
    if (node == nullptr) break;
    step_to(position, *node);
    pages.push_back(node->page);
  }
  table.share(pages);
  return static_cast<std::int64_t>(pages.size() * page_tokens);
}

void PrefixCache::extend(Position& position, std::span<const TokenId> tokens, std::int64_t settled,
                         BlockTable& table) {
  TANDEM_CHECK(position.node_ != nullptr, "extended before it was entered");
  const auto page_tokens = static_cast<std::size_t>(pool_->shape().page_tokens);
  for (;;) {
    const auto index = static_cast<std::size_t>(position.depth_);
    const std::size_t end = (index + 1) * page_tokens;
    if (end > tokens.size()) return;
    TANDEM_CHECK(index < table.pages().size(), "{} pages for {} tokens", table.pages().size(), end);
    const auto chunk = tokens.subspan(index * page_tokens, page_tokens);
    const std::uint64_t hash = hash_of(position.node_, chunk);
    Node* node = find(position.node_, hash, chunk);
    if (node == nullptr) {
      node = &insert(*position.node_, hash, chunk, table.pages()[index]);
    } else {
      if (static_cast<std::int64_t>(end) > settled) return;
      table.replace(index, node->page);
    }
    step_to(position, *node);
  }
}

void PrefixCache::drop_idle() {
  while (!idle_.empty()) reclaim_least();
}

std::optional<Worth> PrefixCache::least() const {
  if (idle_.empty()) return std::nullopt;
  return idle_.begin()->first;
}

void PrefixCache::reclaim_least() {
  TANDEM_CHECK(!idle_.empty(), "nothing is idle");
  drop(*idle_.begin()->second);
}

// The parent's address is part of the hash and differs in every process, so a client cannot
// construct collisions.
std::uint64_t PrefixCache::hash_of(const Node* parent, std::span<const TokenId> tokens) const {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15U;
  auto hash = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(parent));
  for (const TokenId token : tokens) {
    hash = (hash ^ static_cast<std::uint32_t>(token)) * kOdd;
    hash ^= hash >> 32;
  }
  return hash & hash_mask_;
}

PrefixCache::Node* PrefixCache::find(const Node* parent, std::uint64_t hash,
                                     std::span<const TokenId> tokens) const {
  const auto [begin, end] = nodes_.equal_range(hash);
  const auto at = std::find_if(begin, end, [&](const auto& entry) {
    return entry.second->parent == parent && std::ranges::equal(entry.second->tokens, tokens);
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
                                       std::span<const TokenId> tokens, PageId page) {
  auto node = std::make_unique<Node>();
  node->parent = &parent;
  node->hash = hash;
  node->tokens.assign(tokens.begin(), tokens.end());
  node->page = page;
  node->idle = idle_.extract(idle_.emplace(Worth(), node.get()).first);
  Node& inserted = *nodes_.emplace(hash, std::move(node))->second;
  pool_->set_cached(page);
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
  } else {
    roots_.erase(roots_.find(node.digest));
  }
}

void PrefixCache::drop(Node& node) {
  Node& parent = *node.parent;
  idle_.erase({node.worth, &node});
  pool_->drop_cached(node.page);
  // Every use of the child was a use of the parent.
  parent.worth = std::max(parent.worth, node.worth);
  const auto [begin, end] = nodes_.equal_range(node.hash);
  nodes_.erase(
      std::find_if(begin, end, [&](const auto& entry) { return entry.second.get() == &node; }));
  --parent.children;
  settle(parent);
}

}  // namespace tandem
