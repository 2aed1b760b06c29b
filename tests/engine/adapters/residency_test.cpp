#include "engine/adapters/residency.h"

#include <gtest/gtest.h>

#include <array>

#include "engine/adapters/served_adapter.h"

namespace tandem {
namespace {

using enum Residency;
using On = ResidencyEvent;

constexpr std::array kStates = {on_disk, host, loading, resident, evicting};
constexpr std::array kEvents = {On::read,   On::dropped, On::load,    On::loaded,
                                On::failed, On::evict,   On::evicted, On::evicted_to_disk};

TEST(Residency, KnowsEightTransitionsAndNoOther) {
  int known = 0;
  for (const Residency state : kStates) {
    for (const ResidencyEvent event : kEvents) known += next(state, event).has_value() ? 1 : 0;
  }
  EXPECT_EQ(known, 8);
  EXPECT_EQ(next(on_disk, On::read), host);
  EXPECT_EQ(next(host, On::dropped), on_disk);
  EXPECT_EQ(next(host, On::load), loading);
  EXPECT_EQ(next(loading, On::loaded), resident);
  EXPECT_EQ(next(loading, On::failed), host);
  EXPECT_EQ(next(resident, On::evict), evicting);
  EXPECT_EQ(next(evicting, On::evicted), host);
  EXPECT_EQ(next(evicting, On::evicted_to_disk), on_disk);
}

TEST(ResidencyState, ReturnsToWhereTheHostTierHasIt) {
  ResidencyState state;
  state.entered_host();
  EXPECT_EQ(state.now(), host);
  state.apply(On::load);
  state.apply(On::loaded);
  state.apply(On::evict);
  state.evicted();
  EXPECT_EQ(state.now(), host);
  state.apply(On::load);
  state.apply(On::loaded);
  state.left_host();
  EXPECT_EQ(state.now(), resident) << "the device still has it";
  state.apply(On::evict);
  state.evicted();
  EXPECT_EQ(state.now(), on_disk);
}

// The disk's thread may drop a copy whose reading failed at any moment.
TEST(ResidencyState, BeginsNoLoadOfWhatHasLeftTheHostTier) {
  ResidencyState state;
  EXPECT_FALSE(state.begin_load());
  EXPECT_EQ(state.now(), Residency::on_disk);
  state.entered_host();
  EXPECT_TRUE(state.begin_load());
  EXPECT_EQ(state.now(), Residency::loading);
  state.left_host();
  state.load_failed();
  EXPECT_FALSE(state.begin_load());
  EXPECT_EQ(state.now(), Residency::on_disk);
}

TEST(ResidencyStateDeathTest, AbortsOnWhatCannotHappen) {
  ResidencyState state;
  EXPECT_DEATH(state.apply(On::load), "disk");
}

}  // namespace
}  // namespace tandem
