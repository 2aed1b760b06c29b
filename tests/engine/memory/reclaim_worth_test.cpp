// The order of eviction when adapters and the KV that they computed share a pool: ordering by the
// cost of bringing each back takes less time than ordering by age alone.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "engine/memory/block_table.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/prefix_cache.h"

namespace tandem {
namespace {

TEST(Worth, OfWhatIsUsedOftenIsMoreAndOfEqualsTheLastUseCounts) {
  PoolClock clock;
  const Worth once = clock.worth(1, 2.0);
  const Worth twice = clock.worth(2, 2.0);
  const Worth cheap = clock.worth(3, 0.5);
  const Worth again = clock.worth(1, 2.0);
  EXPECT_LT(once, twice);
  EXPECT_LT(cheap, once);
  EXPECT_LT(once, again);
}

TEST(Worth, FallsBehindWhatIsUsedAfterOthersWent) {
  PoolClock clock;
  const Worth popular_once = clock.worth(1000, 1.0);
  std::uint64_t gone = 0;
  Worth new_one = clock.worth(1, 1.0);
  for (; new_one < popular_once; ++gone) {
    clock.went(new_one);
    new_one = clock.worth(1, 1.0);
  }
  EXPECT_LE(gone, PoolClock::kMostUses);
}

struct Situation {
  const char* name;
  std::int32_t num_pages;
  double kv_page_s;
  double adapter_page_s;
  bool shifts;  // popularity changes halfway
};

// A chunk is a page. Adapters of several sizes are requested by Zipf's law; each has its own prompt
// before the text of each request.
class Trace {
 public:
  Trace(const Situation& situation, bool weighs)
      : situation_(situation),
        pool_(situation.num_pages, kPageTokens),
        prefixes_(pool_),
        idle_(*this) {
    if (weighs) {
      pool_.set_costs({.kv_page = situation.kv_page_s, .adapter_byte = situation.adapter_page_s});
    }
    pool_.add(idle_);
    for (int i = 0; i < kAdapters; ++i) popular_.push_back(i);
  }
  ~Trace() {
    entries_.clear();
    pool_.remove(idle_);
  }

  // Returns the seconds spent on bringing back what had been there before.
  double run() {
    std::vector<double> weights;
    for (int i = 0; i < kAdapters; ++i) weights.push_back(1.0 / (i + 1));
    std::discrete_distribution<std::size_t> zipf(weights.begin(), weights.end());
    for (int request = 0; request < kRequests; ++request) {
      if (situation_.shifts && request == kRequests / 2) {
        std::shuffle(popular_.begin(), popular_.end(), random_);
      }
      ask(popular_[zipf(random_)], request);
    }
    return seconds_;
  }

 private:
  static constexpr std::int32_t kPageTokens = 2;
  static constexpr int kAdapters = 100;
  static constexpr int kRequests = 3000;
  static constexpr int kOwnPages = 8;

  struct Entry {
    ChunkTable chunks;
    Worth worth;
    std::uint64_t uses = 0;
    bool in_use = false;
  };

  class Idle : public Reclaimable {
   public:
    explicit Idle(Trace& trace) : trace_(trace) {}
    std::optional<Worth> least() const override {
      const auto at = find();
      return at == trace_.entries_.end() ? std::nullopt : std::optional(at->second.worth);
    }
    void reclaim_least() override { trace_.entries_.erase(find()); }
    std::int64_t reclaimable_pages() const override {
      std::int64_t pages = 0;
      for (const auto& [id, entry] : trace_.entries_) {
        if (!entry.in_use) pages += static_cast<std::int64_t>(entry.chunks.ids().size());
      }
      return pages;
    }

   private:
    std::map<int, Entry>::const_iterator find() const {
      auto least = trace_.entries_.end();
      for (auto at = trace_.entries_.begin(); at != trace_.entries_.end(); ++at) {
        if (at->second.in_use) continue;
        if (least == trace_.entries_.end() || at->second.worth < least->second.worth) least = at;
      }
      return least;
    }
    Trace& trace_;
  };

  void ask(int adapter, int request) {
    const int size = 1 + adapter % 5 * 6;
    if (!entries_.contains(adapter)) {
      auto chunks = pool_.take_chunks(size);
      ASSERT_TRUE(chunks.has_value());
      entries_[adapter].chunks = *std::move(chunks);
      seconds_ += size * situation_.adapter_page_s;
    }
    Entry& entry = entries_[adapter];
    entry.in_use = true;
    ++entry.uses;
    std::vector<TokenId> tokens(kOwnPages * kPageTokens, adapter);
    const std::size_t more = 1 + random_() % 12;
    for (std::size_t i = 0; i < more; ++i) tokens.push_back(1000 + request);
    BlockTable table(pool_);
    PrefixCache::Position position;
    const std::int64_t cached = prefixes_.enter(position, std::to_string(adapter), tokens, table);
    ASSERT_TRUE(table.reserve(static_cast<std::int64_t>(tokens.size())));
    prefixes_.extend(position, tokens, 0, table);
    const std::int64_t missed = std::max<std::int64_t>(kOwnPages - cached / kPageTokens, 0);
    seconds_ += static_cast<double>(missed) * situation_.kv_page_s;
    table.clear();
    position.clear();
    entry.in_use = false;
    entry.worth = pool_.clock().worth(entry.uses, pool_.costs().adapter_byte);
  }

  const Situation situation_;
  std::mt19937 random_{20261123};
  PagePool pool_;
  PrefixCache prefixes_;
  Idle idle_;
  std::map<int, Entry> entries_;
  std::vector<int> popular_;
  double seconds_ = 0;
};

class ReclaimWorth : public ::testing::TestWithParam<Situation> {};

TEST_P(ReclaimWorth, BringsLessBackThanAgeDoes) {
  const double by_age = Trace(GetParam(), false).run();
  const double by_worth = Trace(GetParam(), true).run();
  RecordProperty("share", std::to_string(by_worth / by_age));
  EXPECT_LT(by_worth, 0.9 * by_age);
}

INSTANTIATE_TEST_SUITE_P(
    Pools, ReclaimWorth,
    ::testing::Values(Situation{"small_dear_kv", 200, 0.56e-3, 0.16e-3, false},
                      Situation{"small_dear_kv_shifting", 200, 0.56e-3, 0.16e-3, true},
                      Situation{"small_dear_adapters", 200, 0.1e-3, 0.8e-3, false},
                      Situation{"small_dear_adapters_shifting", 200, 0.1e-3, 0.8e-3, true},
                      Situation{"large_dear_kv", 500, 0.56e-3, 0.16e-3, false},
                      Situation{"large_dear_kv_shifting", 500, 0.56e-3, 0.16e-3, true},
                      Situation{"large_dear_adapters", 500, 0.1e-3, 0.8e-3, false},
                      Situation{"large_dear_adapters_shifting", 500, 0.1e-3, 0.8e-3, true}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace tandem
