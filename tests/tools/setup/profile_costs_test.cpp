#include "tools/setup/profile_costs.h"

#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

class ProfileCosts : public ::testing::Test {
 protected:
  ProfileCosts() {
    profile_.date = "2026-11-20T18:50:04Z";
    profile_.commit = "abc";
    profile_.workers = 6;
    profile_.machine = {"Some CPU", 16, "host"};
    profile_.model = {"m", 256, 8, 8, 4, 32, 704, 4096, DType::bf16};
    profile_.figures = {{"trip_s", 1e-6, 0.02, true, ""}, {"prepare", 0.4, 0.01, true, ""}};
  }

  bool is_certain(std::int32_t workers) {
    EngineSettings settings;
    settings.profile = (dir_.path() / "profile.json").string();
    EXPECT_TRUE(write_profile(profile_, settings.profile).ok());
    return is_profile_certain(settings, workers);
  }

  const testing::TempDir dir_;
  Profile profile_;
};

TEST_F(ProfileCosts, AreReliedOnWhereEachFigureIsCertainAndTheWorkersAreAsMany) {
  EXPECT_TRUE(is_certain(6));
  EXPECT_FALSE(is_certain(1));
}

// It was measured on a busy machine, so cold starts would be slower with it than without one.
TEST_F(ProfileCosts, AreNotReliedOnWhereAFigureIsUncertain) {
  profile_.figures[1].certain = false;
  EXPECT_FALSE(is_certain(6));
}

TEST_F(ProfileCosts, AreNotReliedOnWhereNobodyJudgedThem) {
  profile_.figures.clear();
  EXPECT_FALSE(is_certain(6));
}

TEST_F(ProfileCosts, WithoutAProfileOrAFileAreNotReliedOn) {
  EngineSettings settings;
  EXPECT_FALSE(is_profile_certain(settings, 6));
  settings.profile = (dir_.path() / "none.json").string();
  EXPECT_FALSE(is_profile_certain(settings, 6));
}

}  // namespace
}  // namespace tandem
