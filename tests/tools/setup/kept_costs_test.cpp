#include "tools/setup/kept_costs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file/file.h"
#include "tests/support/small_model.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

class KeptCostsTest : public ::testing::Test {
 protected:
  KeptCostsTest() {
    settings_.learned_costs = (dir_.path() / "costs").string();
    settings_.model = "small";
    handoff_.groups.push_back({-1, {1, 2}, 0});
    lessons_.costs.link = {1.5};
    lessons_.costs.layers[2] = {0.9, 1.1};
    lessons_.plans.seen.push_back({{1, 9, 2}, {{{1}, {1.5}, {2}}}, 7, 0});
  }

  std::unique_ptr<KeptCosts> open() const {
    return open_kept_costs(settings_, test::small_model(2), DType::bf16, device_, handoff_);
  }

  const testing::TempDir dir_;
  EngineSettings settings_;
  HandoffOptions handoff_;
  DeviceInfo device_{"Some GPU", 0, true};
  EngineLessons lessons_;
};

TEST_F(KeptCostsTest, AreThereAtTheNextStart) {
  const auto first = open();
  EXPECT_EQ(first->read(), std::nullopt);
  first->keep(lessons_);
  EXPECT_EQ(open()->read(), lessons_);
}

TEST_F(KeptCostsTest, AreKeptWhateverTheModelsFolderIsCalled) {
  settings_.model = "/" + std::string(300, 'x') + "/\xff\xfe\"/";
  open()->keep(lessons_);
  EXPECT_EQ(open()->read(), lessons_);
}

TEST_F(KeptCostsTest, AreOfOneMachineOneModelSoManyWorkersAndTheirFigures) {
  open()->keep(lessons_);
  const HandoffOptions same = handoff_;
  handoff_.groups[0].cpus.push_back(3);
  EXPECT_EQ(open()->read(), std::nullopt);
  handoff_ = same;
  handoff_.costs.trip_s *= 2;
  EXPECT_EQ(open()->read(), std::nullopt);
  handoff_ = same;
  device_.name = "Another GPU";
  EXPECT_EQ(open()->read(), std::nullopt);
  device_.name = "Some GPU";
  EXPECT_EQ(open()->read(), lessons_);
}

TEST_F(KeptCostsTest, AreOfSoManyDevicesThatShareTheModel) {
  open()->keep(lessons_);
  const auto of_one = open()->path();
  settings_.tensor_parallel = 2;
  EXPECT_EQ(open()->read(), std::nullopt);
  EngineLessons of_two = lessons_;
  of_two.costs.link = {0.5};
  open()->keep(of_two);
  EXPECT_NE(open()->path(), of_one);
  EXPECT_EQ(open()->read(), of_two);
  settings_.tensor_parallel = 1;
  EXPECT_EQ(open()->read(), lessons_);
}

TEST_F(KeptCostsTest, AreWrittenOnlyWhenTheyHaveChanged) {
  const auto kept = open();
  kept->keep(lessons_);
  fs::remove(kept->path());
  kept->keep(lessons_);
  EXPECT_FALSE(fs::exists(kept->path()));
  lessons_.costs.link.push_back(2);
  kept->keep(lessons_);
  EXPECT_TRUE(fs::exists(kept->path()));
}

// Otherwise nothing would be measured at the next start.
TEST_F(KeptCostsTest, AreNotKeptWhereNothingWasLearnt) {
  open()->keep(EngineLessons());
  EXPECT_EQ(open()->read(), std::nullopt);
}

TEST_F(KeptCostsTest, AreLearntAnewWhereTheFileIsBroken) {
  const auto kept = open();
  kept->keep(lessons_);
  std::ofstream(kept->path()) << "{";
  const auto next = open();
  EXPECT_EQ(next->read(), std::nullopt);
  next->keep(lessons_);
  EXPECT_EQ(open()->read(), lessons_);
}

TEST_F(KeptCostsTest, AreLearntAnewWhereTheFileHoldsWhatNobodyWrote) {
  const auto kept = open();
  kept->keep(lessons_);
  std::string text = *read_text_file(kept->path(), 1 << 20);
  const std::size_t at = text.find("\"rows\": 9");
  ASSERT_NE(at, std::string::npos) << text;
  std::ofstream(kept->path()) << text.replace(at, 9, "\"rows\": 9000");
  EXPECT_EQ(open()->read(), std::nullopt);
}

// Another version may define situations differently, so its plans are not kept.
TEST_F(KeptCostsTest, AreKeptWithoutPlansOfAnotherVersion) {
  const auto kept = open();
  kept->keep(lessons_);
  std::string text = *read_text_file(kept->path(), 1 << 20);
  const std::string version = fmt::format("\"version\": {}", PlanLessons::kVersion);
  const std::size_t at = text.find(version);
  ASSERT_NE(at, std::string::npos) << text;
  std::ofstream(kept->path()) << text.replace(at, version.size(), "\"version\": 1");
  const std::optional<EngineLessons> read = open()->read();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->costs, lessons_.costs);
  EXPECT_EQ(read->plans, PlanLessons());
}

TEST_F(KeptCostsTest, GiveUpWhereTheFolderCannotBeMade) {
  std::ofstream(dir_.path() / "costs") << "a file";
  const auto kept = open();
  EXPECT_EQ(kept->read(), std::nullopt);
  kept->keep(lessons_);
  EXPECT_EQ(open()->read(), std::nullopt);
}

TEST_F(KeptCostsTest, AreNoneWithoutWorkersPlansOrAFolder) {
  EXPECT_NE(open(), nullptr);
  settings_.options.adapter_mode = AdapterMode::pipelined;
  EXPECT_EQ(open(), nullptr);
  settings_.options.adapter_mode = AdapterMode::planned;
  handoff_.groups.clear();
  EXPECT_EQ(open(), nullptr);
  handoff_.groups.push_back({-1, {1}, 0});
  settings_.learned_costs = "none";
  EXPECT_EQ(open(), nullptr);
}

}  // namespace
}  // namespace tandem
