#include "scheduler/planning/queue/fair_share.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

TEST(FairShare, CountsWhatATenantWasGiven) {
  FairShare share;
  FairShare::Tenant& tenant = share.enter("a");
  share.begin(tenant, 100);
  FairShare::charge_output(tenant, 10);
  EXPECT_DOUBLE_EQ(tenant.service, 100 * FairShare::kPromptToken + 10 * FairShare::kOutputToken);
  EXPECT_EQ(&share.enter("a"), &tenant);
  EXPECT_EQ(tenant.requests, 2);
}

TEST(FairShare, SavesNothingUpForWhoWasAway) {
  FairShare share;
  FairShare::Tenant& busy = share.enter("busy");
  FairShare::Tenant& idle = share.enter("idle");
  share.leave(idle);
  FairShare::charge_output(busy, 1000);
  EXPECT_DOUBLE_EQ(share.enter("idle").service, busy.service);
  EXPECT_DOUBLE_EQ(share.enter("new").service, busy.service);
}

TEST(FairShare, GivesNobodyAnAdvanceForOneThatCannotGoOn) {
  FairShare share;
  (void)share.enter("stuck");
  FairShare::Tenant& busy = share.enter("busy");
  for (int i = 0; i < 100; ++i) share.begin(busy, 10);
  EXPECT_DOUBLE_EQ(share.enter("new").service, 990) << "when it was busy's turn last";
  for (int i = 0; i < 1000; ++i) {
    FairShare::Tenant& made_up = share.enter("made up " + std::to_string(i));
    share.begin(made_up, 1);
    share.leave(made_up);
    share.begin(busy, 10);
  }
  EXPECT_LT(share.num_tenants(), 200U) << "names are forgotten all the same";
}

TEST(FairShare, ForgivesNothingToWhoLeavesAndComesBack) {
  FairShare share;
  FairShare::Tenant& greedy = share.enter("greedy");
  (void)share.enter("modest");
  FairShare::charge_output(greedy, 1000);
  const double had = greedy.service;
  share.leave(greedy);
  EXPECT_DOUBLE_EQ(share.enter("greedy").service, had);
}

TEST(FairShare, StartsWhereTheLastLeftOffWhenNobodyIsThere) {
  FairShare share;
  FairShare::Tenant& last = share.enter("last");
  share.begin(last, 500);
  share.leave(last);
  EXPECT_DOUBLE_EQ(share.enter("next").service, 500);
}

TEST(FairShare, IsNotFilledWithNamesByStrangers) {
  FairShare share;
  FairShare::Tenant& one = share.enter("one");
  for (int i = 0; i < 10'000; ++i) {
    share.begin(one, 1);
    FairShare::Tenant& made_up = share.enter("made up " + std::to_string(i));
    share.leave(made_up);
  }
  EXPECT_LT(share.num_tenants(), 200U);
}

TEST(FairShare, CountsARequestWhileItStays) {
  FairShare share;
  FairShare::Tenant* tenant = nullptr;
  {
    TenantStay stay(share, "a");
    tenant = stay.tenant();
    TenantStay moved = std::move(stay);
    stay = TenantStay(share, "a");
    EXPECT_EQ(tenant->requests, 2);
    EXPECT_EQ(share.num_present(), 1U);
  }
  EXPECT_EQ(tenant->requests, 0);
  EXPECT_EQ(share.num_present(), 0U);
}

// If two tenants always wait, neither gets more than one request ahead, whatever the sizes.
TEST(FairShare, KeepsTenantsWithinARequestOfEachOther) {
  std::mt19937_64 random(test_seed());
  FairShare share;
  FairShare::Tenant& a = share.enter("a");
  FairShare::Tenant& b = share.enter("b");
  for (int i = 0; i < 1000; ++i) {
    FairShare::Tenant& next = a.service <= b.service ? a : b;
    share.begin(next, 1 + static_cast<std::int64_t>(random() % 1000));
    ASSERT_LE(std::abs(a.service - b.service), 1000);
  }
}

}  // namespace
}  // namespace tandem
