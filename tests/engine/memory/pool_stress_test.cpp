// Random operations on the pool, the prefix cache and resident adapters, compared with a model that
// knows the last content of every page and chunk.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/memory/block_table.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/prefix_cache.h"

namespace tandem {
namespace {

constexpr std::int32_t kPages = 61;
constexpr std::int32_t kPageTokens = 4;
constexpr std::int32_t kChunks = 8;  // per page

// Adapters on the device: only unused ones may be evicted.
class Adapters : public Reclaimable {
 public:
  struct Entry {
    ChunkTable chunks;
    Worth worth;
    int users = 0;
  };

  explicit Adapters(PagePool& pool) : pool_(pool) { pool.add(*this); }
  ~Adapters() override { pool_.remove(*this); }

  std::optional<Worth> least() const override {
    const auto at = least_entry();
    if (at == entries.end()) return std::nullopt;
    return at->second.worth;
  }
  void reclaim_least() override { entries.erase(least_entry()); }
  std::int64_t reclaimable_pages() const override {
    std::int64_t chunks = 0;
    for (const auto& [id, entry] : entries) {
      if (entry.users == 0) chunks += static_cast<std::int64_t>(entry.chunks.ids().size());
    }
    return chunks / kChunks;
  }

  std::map<int, Entry> entries;

 private:
  std::map<int, Entry>::const_iterator least_entry() const {
    auto best = entries.end();
    for (auto at = entries.begin(); at != entries.end(); ++at) {
      if (at->second.users > 0) continue;
      if (best == entries.end() || at->second.worth < best->second.worth) best = at;
    }
    return best;
  }

  PagePool& pool_;
};

class Stress {
 public:
  // Every second seed considers only the age.
  Stress(unsigned seed, const KvGroups& groups)
      : random_(seed), pool_(PoolShape{kPages, kPageTokens, kChunks, groups}) {
    if (seed % 2 == 0) pool_.set_costs({.kv_page = 1, .adapter_byte = 1});
  }

  void operation() {
    switch (random_() % 8) {
      case 0:
        return load();
      case 1:
        return evict();
      case 2:
        return start();
      case 3:
        return preempt();
      case 4:
        return finish();
      default:
        return compute();
    }
  }

  void check() {
    std::set<PageId> kv;
    for (const Sequence& sequence : sequences_) {
      for_each_page(sequence, [&](std::int32_t group, std::size_t i, PageId page) {
        kv.insert(page);
        // Any cached part must be the KV of exactly these tokens and this adapter.
        const auto end = (i + 1) * kPageTokens;
        if (end > sequence.computed) return;
        ASSERT_EQ(kv_of_[page], key(sequence, end, group)) << "page " << page.value();
      });
      for (std::int32_t group = groups().whole; group < groups().count(); ++group) {
        const auto seen = static_cast<std::size_t>(
            groups().first_seen(static_cast<std::int64_t>(sequence.computed)) / kPageTokens);
        for (std::size_t i = seen; i < sequence.table.num_pages(); ++i) {
          ASSERT_NE(sequence.table.pages(group)[i], pool_.shape().null_page()) << "a row sees it";
        }
      }
    }
    std::set<ChunkId> chunks;
    std::set<PageId> adapter_pages;
    std::size_t count = 0;
    for (const auto& [id, entry] : adapters_.entries) {
      for (const ChunkId chunk : entry.chunks.ids()) {
        chunks.insert(chunk);
        const PageId page(chunk.value() / kChunks);
        adapter_pages.insert(page);
        ASSERT_FALSE(kv.contains(page)) << "chunk " << chunk.value() << " lies in a page of KV";
        ASSERT_EQ(adapter_of_[chunk], id) << "chunk " << chunk.value();
        ++count;
      }
    }
    ASSERT_EQ(chunks.size(), count) << "a chunk is owned twice";
    const PoolCounts counts = pool_.counts();
    ASSERT_EQ(counts.kv, static_cast<std::int32_t>(kv.size()));
    ASSERT_EQ(counts.adapter, static_cast<std::int32_t>(adapter_pages.size()));
    ASSERT_EQ(counts.chunks, static_cast<std::int64_t>(count));
    ASSERT_EQ(counts.spare_chunks, std::int64_t{counts.adapter} * kChunks - counts.chunks);
    ASSERT_EQ(counts.free + counts.kv + counts.cached + counts.adapter, kPages) << "a page is lost";
    ASSERT_LE(counts.cached, static_cast<std::int32_t>(prefixes_.num_pages()) * groups().count());
  }

  void end() {
    while (!sequences_.empty()) finish();
    ASSERT_TRUE(pool_.make_room(kPages)) << "idle pages can all be had";
    prefixes_.drop_idle();
    ASSERT_EQ(prefixes_.num_pages(), 0U);
    ASSERT_TRUE(adapters_.entries.empty());
  }

  int hits = 0;
  int preemptions = 0;
  int refused = 0;
  int loads = 0;

 private:
  struct Sequence {
    Sequence(PagePool& pool, int which, std::vector<TokenId> all)
        : adapter(which), tokens(std::move(all)), table(pool) {}
    int adapter;  // 0: base
    std::vector<TokenId> tokens;
    std::size_t computed = 0;
    BlockTable table;
    PrefixCache::Position position;
  };
  struct Key {
    int adapter = 0;
    std::int32_t group = 0;
    std::vector<TokenId> tokens;
    bool operator==(const Key&) const = default;
  };

  static Key key(const Sequence& sequence, std::size_t end, std::int32_t group) {
    return {sequence.adapter,
            group,
            {sequence.tokens.begin(), sequence.tokens.begin() + static_cast<std::ptrdiff_t>(end)}};
  }
  const KvGroups& groups() const { return pool_.shape().groups; }
  // Calls visit(group, index, page) for all pages that the sequence holds.
  template <typename Visit>
  void for_each_page(const Sequence& sequence, const Visit& visit) const {
    for (std::int32_t group = 0; group < groups().count(); ++group) {
      for (std::size_t i = 0; i < sequence.table.num_pages(); ++i) {
        const PageId page = sequence.table.pages(group)[i];
        if (page != pool_.shape().null_page()) visit(group, i, page);
      }
    }
  }
  // As SequencePages: first gives back what no row from `computed` on sees.
  bool reserve(Sequence& sequence, std::size_t tokens) {
    const auto seen = static_cast<std::size_t>(
        groups().first_seen(static_cast<std::int64_t>(sequence.computed)) / kPageTokens);
    if (groups().windowed > 0) {
      sequence.position.give_back_before(seen);
      sequence.table.give_back_before(seen);
    }
    return sequence.table.reserve(static_cast<std::int64_t>(tokens));
  }
  Worth worth_of(int adapter) {
    return pool_.clock().worth(static_cast<std::uint64_t>(adapter), pool_.costs().adapter_byte);
  }
  static std::string digest(int adapter) { return adapter == 0 ? "" : std::to_string(adapter); }

  // Loads an adapter of any size, evicting unused ones. Returns false if there is no room.
  bool resident(int id) {
    auto& entries = adapters_.entries;
    if (!entries.contains(id)) {
      auto chunks = pool_.take_chunks(1 + static_cast<std::int64_t>(random_() % (6 * kChunks)));
      if (!chunks) {
        ++refused;
        return false;
      }
      for (const ChunkId chunk : chunks->ids()) adapter_of_[chunk] = id;
      entries[id].chunks = std::move(*chunks);
      ++loads;
    }
    entries[id].worth = worth_of(id);
    return true;
  }

  void load() { (void)resident(1 + static_cast<int>(random_() % 9)); }

  void evict() {
    if (adapters_.least()) adapters_.reclaim_least();
  }

  void start() {
    const int adapter = static_cast<int>(random_() % 5);
    if (adapter > 0 && !resident(adapter)) return;
    // Few different first tokens and long equal runs make prompts share beginnings of all lengths.
    std::vector<TokenId> tokens(1 + random_() % 40, static_cast<TokenId>(random_() % 3));
    for (std::size_t i = random_() % 40; i < tokens.size(); ++i) tokens[i] = 7;
    if (adapter > 0) ++adapters_.entries[adapter].users;
    sequences_.emplace_back(pool_, adapter, std::move(tokens));
    if (!enter(sequences_.back())) stop(sequences_.size() - 1);
  }

  bool enter(Sequence& sequence) {
    sequence.computed = static_cast<std::size_t>(
        prefixes_.enter(sequence.position, digest(sequence.adapter),
                        std::span<const TokenId>(sequence.tokens).first(sequence.tokens.size() - 1),
                        sequence.table));
    hits += static_cast<int>(sequence.computed);
    for_each_page(sequence, [&](std::int32_t group, std::size_t i, PageId page) {
      EXPECT_EQ(kv_of_[page], key(sequence, (i + 1) * kPageTokens, group));
    });
    return reserve(sequence, sequence.tokens.size());
  }

  // Computes a chunk of the prompt, or a token that then gets a successor.
  void compute() {
    if (sequences_.empty()) return start();
    Sequence& sequence = sequences_[random_() % sequences_.size()];
    if (sequence.computed == sequence.tokens.size()) {
      if (!reserve(sequence, sequence.tokens.size() + 1)) {
        return preempt();
      }
      sequence.tokens.push_back(static_cast<TokenId>(random_() % 2));
    }
    const std::size_t settled = sequence.computed;
    const std::size_t left = sequence.tokens.size() - settled;
    sequence.computed += 1 + random_() % left;
    for_each_page(sequence, [&](std::int32_t group, std::size_t i, PageId page) {
      const std::size_t end = (i + 1) * kPageTokens;
      if (end > settled && end <= sequence.computed) kv_of_[page] = key(sequence, end, group);
    });
    prefixes_.extend(sequence.position,
                     std::span<const TokenId>(sequence.tokens).first(sequence.computed),
                     static_cast<std::int64_t>(settled), sequence.table);
  }

  void preempt() {
    if (sequences_.empty()) return;
    Sequence& sequence = sequences_.back();
    sequence.table.clear();
    sequence.position.clear();
    ++preemptions;
    if (!enter(sequence)) stop(sequences_.size() - 1);
  }

  void finish() {
    if (!sequences_.empty()) stop(random_() % sequences_.size());
  }

  void stop(std::size_t index) {
    const int adapter = sequences_[index].adapter;
    if (adapter > 0) {
      --adapters_.entries[adapter].users;
      adapters_.entries[adapter].worth = worth_of(adapter);
    }
    sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  std::mt19937 random_;
  PagePool pool_;
  PrefixCache prefixes_{pool_};
  Adapters adapters_{pool_};
  std::vector<Sequence> sequences_;
  std::map<PageId, Key> kv_of_;        // the key of the KV in each full page
  std::map<ChunkId, int> adapter_of_;  // the adapter in each chunk
};

TEST(PoolStress, LosesNoPageAndGivesNoneToTwoOverTenThousandOperations) {
  const KvGroups windowed{1, 1, 11, 64};
  const KvGroups only_windowed{0, 1, 6, 64};
  const std::pair<unsigned, KvGroups> runs[] = {
      {20261120U, {}}, {1U, {}}, {2U, {}}, {3U, windowed}, {4U, windowed}, {6U, only_windowed}};
  for (const auto& [seed, groups] : runs) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Stress stress(seed, groups);
    for (int i = 0; i < 10000; ++i) {
      stress.operation();
      stress.check();
      if (::testing::Test::HasFailure()) FAIL() << "operation " << i;
    }
    stress.end();
    std::printf("seed %u: %d loads, %d refused, %d tokens from the prefix cache, %d preemptions\n",
                seed, stress.loads, stress.refused, stress.hits, stress.preemptions);
    EXPECT_GT(stress.loads, 100);
    EXPECT_GT(stress.refused, 0);
    EXPECT_GT(stress.hits, 1000);
    EXPECT_GT(stress.preemptions, 100);
  }
}

}  // namespace
}  // namespace tandem
