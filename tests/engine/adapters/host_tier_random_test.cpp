// Compares the host tier with a model of it, for one arena and for several.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "engine/adapters/host_tier.h"
#include "tests/support/test_device.h"
#include "tests/support/test_seed.h"

namespace tandem::test {
namespace {

constexpr std::size_t kShare = std::size_t{64} * 40;  // of an arena
constexpr int kOperations = 4000;

std::size_t rounded(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

struct Run {
  HostTier::Place place;
  std::size_t bytes = 0;
  int fill = 0;
  AdapterBytes held;  // held while it is filled or copied
  std::optional<HostTier::Id> kept;
  bool droppable = false;
  bool gone = false;  // dropped or erased
  std::uint64_t last_use = 0;

  bool is_there() const { return held != nullptr || (kept && !gone); }
  bool may_go() const { return kept && !gone && droppable && held == nullptr; }
};

class ModelledTier {
 public:
  ModelledTier(std::size_t num_arenas, std::uint64_t seed)
      : device_(make_test_device()),
        tier_(HostTier::create(*device_, num_arenas * kShare, std::vector<int>(num_arenas, -1))
                  .value()),
        random_(seed) {}

  void step() {
    const unsigned kind = pick(10);
    if (kind < 4 || runs_.empty()) return take();
    const std::size_t index = pick(static_cast<unsigned>(runs_.size()));
    Run& run = runs_[index];
    if (kind < 6 && run.held != nullptr && !run.kept) return keep(index);
    if (kind < 8 && run.kept) return find(run);
    if (kind == 8) run.held = nullptr;
    if (kind == 9 && run.kept && pick(3) == 0) {
      tier_->erase(*run.kept);
      run.gone = true;
    }
  }

  void check() {
    std::size_t used = 0;
    for (const Run& run : runs_) used += run.is_there() ? rounded(run.bytes) : 0;
    ASSERT_EQ(tier_->used(), used);
  }
  std::size_t num_taken(std::size_t arena) const { return taken_[arena]; }
  std::size_t num_dropped() const { return dropped_; }
  std::size_t num_refused() const { return refused_; }

 private:
  // The last use of the most recently used run to drop, the used part of the arena, and the runs to
  // drop.
  using Cost = std::tuple<std::uint64_t, std::size_t, std::vector<std::size_t>>;

  unsigned pick(unsigned below) { return static_cast<unsigned>(random_() % below); }

  std::vector<std::size_t> runs_in(std::size_t arena) const {  // in the order of their offsets
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].is_there() && runs_[i].place.arena == arena) found.push_back(i);
    }
    std::sort(found.begin(), found.end(), [&](std::size_t a, std::size_t b) {
      return runs_[a].place.offset < runs_[b].place.offset;
    });
    return found;
  }
  bool fits_beside(const std::vector<std::size_t>& runs, std::size_t bytes) const {
    std::size_t end = 0;
    for (const std::size_t i : runs) {
      if (runs_[i].place.offset - end >= rounded(bytes)) return true;
      end = runs_[i].place.offset + rounded(runs_[i].bytes);
    }
    return kShare - end >= rounded(bytes);
  }
  std::optional<Cost> cost(std::size_t arena, std::size_t bytes) const {
    std::vector<std::size_t> left = runs_in(arena);
    Cost cost;
    for (const std::size_t i : left) std::get<1>(cost) += rounded(runs_[i].bytes);
    while (!fits_beside(left, bytes)) {
      auto oldest = left.end();
      for (auto each = left.begin(); each != left.end(); ++each) {
        if (!runs_[*each].may_go()) continue;
        if (oldest == left.end() || runs_[*each].last_use < runs_[*oldest].last_use) oldest = each;
      }
      if (oldest == left.end()) return std::nullopt;
      std::get<0>(cost) = runs_[*oldest].last_use;
      std::get<2>(cost).push_back(*oldest);
      left.erase(oldest);
    }
    return cost;
  }

  void take() {
    const std::size_t bytes = 1 + pick(kShare / 3) + (pick(6) == 0 ? pick(kShare) : 0);
    std::vector<std::optional<Cost>> costs;
    std::optional<Cost> least;
    for (std::size_t arena = 0; arena < tier_->num_arenas(); ++arena) {
      costs.push_back(cost(arena, bytes));
      if (costs.back() && (!least || *costs.back() < *least)) least = costs.back();
    }
    const bool waiting_helps = std::any_of(runs_.begin(), runs_.end(), [](const Run& run) {
      return run.held != nullptr && (!run.kept || run.gone || run.droppable);
    });
    told_.clear();
    bool retry = false;
    Result<AdapterBytes> got = tier_->take(bytes, &retry);
    if (bytes > kShare) {
      ASSERT_EQ(got.status().code(), StatusCode::invalid_argument);
      return;
    }
    ASSERT_EQ(got.ok(), least.has_value()) << bytes << " bytes";
    if (!got.ok()) {
      ASSERT_EQ(got.status().code(), StatusCode::resource_exhausted);
      ASSERT_TRUE(told_.empty()) << "dropped for nothing";
      ASSERT_EQ(retry, waiting_helps);
      ++refused_;
      return;
    }
    Run run;
    run.place = tier_->place_of(got->get());
    run.bytes = bytes;
    ASSERT_EQ(costs[run.place.arena], least);
    ASSERT_EQ(told_, std::get<2>(*least));
    ASSERT_LE(run.place.offset + bytes, kShare);
    for (const std::size_t i : runs_in(run.place.arena)) {
      ASSERT_TRUE(run.place.offset >= runs_[i].place.offset + rounded(runs_[i].bytes) ||
                  run.place.offset + rounded(bytes) <= runs_[i].place.offset);
    }
    run.fill = static_cast<int>(pick(256));
    run.held = std::move(got).value();
    std::memset(run.held.get(), run.fill, bytes);
    ++taken_[run.place.arena];
    runs_.push_back(std::move(run));
  }

  void keep(std::size_t index) {
    Run& run = runs_[index];
    run.droppable = pick(10) > 0;
    std::function<void()> dropped;
    if (run.droppable) {
      dropped = [this, index] {
        told_.push_back(index);
        runs_[index].gone = true;
        ++dropped_;
      };
    }
    run.kept = tier_->keep(run.held, std::move(dropped));
    run.last_use = ++uses_;
    if (pick(3) > 0) run.held = nullptr;
  }

  void find(Run& run) {
    AdapterBytes found = tier_->find(*run.kept);
    ASSERT_EQ(found == nullptr, run.gone);
    if (found == nullptr) return;
    run.last_use = ++uses_;
    ASSERT_TRUE(std::all_of(found.get(), found.get() + run.bytes, [&](std::byte value) {
      return std::to_integer<int>(value) == run.fill;
    }));
    if (pick(6) == 0) run.held = std::move(found);
  }

  std::unique_ptr<Device> device_;
  std::shared_ptr<HostTier> tier_;
  std::mt19937 random_;
  std::vector<Run> runs_;
  std::vector<std::size_t> told_;  // dropped by the current take()
  std::uint64_t uses_ = 0;
  std::array<std::size_t, 4> taken_{};
  std::size_t dropped_ = 0;
  std::size_t refused_ = 0;
};

class HostTierOfArenas : public ::testing::TestWithParam<std::size_t> {};

TEST_P(HostTierOfArenas, DoesWhatItsModelDoes) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  ModelledTier tier(GetParam(), seed);
  for (int i = 0; i < kOperations; ++i) {
    tier.step();
    tier.check();
    if (HasFatalFailure()) return;
  }
  for (std::size_t arena = 0; arena < GetParam(); ++arena) {
    EXPECT_GT(tier.num_taken(arena), 0U) << "arena " << arena;
  }
  EXPECT_GT(tier.num_dropped(), 0U);
  EXPECT_GT(tier.num_refused(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Of, HostTierOfArenas, ::testing::Values(1, 2, 4));

}  // namespace
}  // namespace tandem::test
