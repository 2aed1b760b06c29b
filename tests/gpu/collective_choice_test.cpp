#include "gpu/collective_choice.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

constexpr std::size_t kBytes = 4096;

TEST(CollectiveChoice, KnowsTheNamesOfTheSetting) {
  EXPECT_EQ(parse_collectives("auto"), Collectives::automatic);
  EXPECT_EQ(parse_collectives("own"), Collectives::own);
  EXPECT_EQ(parse_collectives("nccl"), Collectives::nccl);
  EXPECT_EQ(parse_collectives("NCCL"), std::nullopt);
  EXPECT_EQ(parse_collectives(""), std::nullopt);
}

TEST(CollectiveChoice, LetsOurOwnKernelsDoAllWhereTheGpusMapEachOthersMemory) {
  const GroupOptions chosen;
  EXPECT_FALSE(goes_through_nccl(chosen, true, 4));
  EXPECT_FALSE(goes_through_nccl(chosen, true, GroupOptions::kNever));
  EXPECT_FALSE(may_need_nccl(chosen, true));
}

TEST(CollectiveChoice, LetsNcclDoAllWhereTheyCannot) {
  const GroupOptions chosen;
  EXPECT_TRUE(goes_through_nccl(chosen, false, 4));
  EXPECT_TRUE(may_need_nccl(chosen, false));
}

TEST(CollectiveChoice, DoesAsItIsTold) {
  GroupOptions told;
  told.collectives = Collectives::nccl;
  EXPECT_TRUE(goes_through_nccl(told, true, 4));
  EXPECT_TRUE(may_need_nccl(told, true));
  told.collectives = Collectives::own;
  told.nccl_from_bytes = 0;
  EXPECT_FALSE(goes_through_nccl(told, true, kBytes));
  EXPECT_FALSE(may_need_nccl(told, true));
}

TEST(CollectiveChoice, TakesNcclFromAnAmountOfBytesOn) {
  GroupOptions from;
  from.nccl_from_bytes = kBytes;
  EXPECT_FALSE(goes_through_nccl(from, true, kBytes - 1));
  EXPECT_TRUE(goes_through_nccl(from, true, kBytes));
  EXPECT_TRUE(may_need_nccl(from, true));
  EXPECT_TRUE(goes_through_nccl(from, false, 4)) << "there is no other way";
}

}  // namespace
}  // namespace tandem
