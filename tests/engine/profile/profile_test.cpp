#include "engine/profile/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

Profile sample_profile() {
  Profile profile;
  profile.date = "2026-11-20T18:50:04Z";
  profile.commit = "abc123";
  profile.seconds = 92.5;
  profile.workers = 12;
  profile.machine = {"Some CPU", 16, "NVIDIA H200"};
  profile.model = {"llama-2-7b", 4096, 32, 32, 32, 128, 11008, 32000, DType::bf16};
  profile.costs.link_bytes_per_s = 54.3e9;
  profile.costs.tokens_per_core = 7;
  profile.fits.push_back({"prefill", "seconds = a + b tokens", {3e-3, 2e-5}, 0.97});
  profile.tables.push_back({"link", {"bytes", "seconds"}, {{65536, 8e-6}, {1e6, 2e-5}}});
  return profile;
}

ProfileMachine here() {
  return sample_profile().machine;
}

TEST(Profile, ComesBackAsItWasWritten) {
  const testing::TempDir dir;
  const std::filesystem::path path = dir.path() / "sub" / "profile.json";
  const Profile written = sample_profile();
  const Status status = write_profile(written, path);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto read = read_profile(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(to_json(*read), to_json(written));
  EXPECT_EQ(read->costs.link_bytes_per_s, 54.3e9);
  EXPECT_EQ(read->costs.tokens_per_core, 7);
  EXPECT_EQ(read->fit("prefill")->coefficients[1], 2e-5);
  EXPECT_EQ(read->table("link")->column("bytes")[1], 1e6);
  EXPECT_EQ(read->table("none"), nullptr);
  EXPECT_TRUE(read->table("link")->column("none").empty());
  EXPECT_TRUE(check_profile(*read, here(), written.model).ok());
}

TEST(Profile, SaysTheQuotaThatItWasMeasuredUnder) {
  Profile written = sample_profile();
  EXPECT_EQ(parse_profile(to_json(written))->machine.quota_cpus, 0);
  written.machine.quota_cpus = 0.5;
  const auto read = parse_profile(to_json(written));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->machine.quota_cpus, 0.5);
  EXPECT_TRUE(check_profile(*read, here(), written.model).ok());
  std::string json = to_json(written);
  json.replace(json.find("\"quota_cpus\":") + 13, 4, "-1  ");
  EXPECT_FALSE(parse_profile(json).ok());
}

TEST(Profile, CarriesWhatWasLearntWithIt) {
  Profile written = sample_profile();
  EXPECT_EQ(parse_profile(to_json(written))->lessons, std::nullopt);
  EngineLessons lessons;
  lessons.costs.link = {1.25, 0.9};
  lessons.costs.layers[3] = {1.5, 1.75};
  lessons.costs.stalls[2][11] = {0.5};
  lessons.plans.seen.push_back({{1, 9, 255, 4}, {{{}, {1.5, 0.75}, {2}}}, 99, 3});
  lessons.plans.seen.push_back({{4, 2, 0}, {{{1.125}, {}, {}}}, 0, 0});
  written.lessons = lessons;
  const auto read = parse_profile(to_json(written));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->lessons, lessons);
}

TEST(Profile, SaysHowFarItsFiguresCanBeTrusted) {
  Profile written = sample_profile();
  EXPECT_TRUE(written.is_certain());  // written by an older program, which did not judge
  written.figures = {{"trip_s", 1.2e-6, 0.03, true, ""},
                     {"prepare", 0.4, 0.7, false, "figures of 9 passes lie far apart"},
                     {"tokens_per_core", 7, 0, true, ""}};
  written.others = "others had 3.2 s of processor time";
  const auto read = parse_profile(to_json(written));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(to_json(*read), to_json(written));
  ASSERT_NE(read->figure("prepare"), nullptr);
  EXPECT_EQ(read->figure("prepare")->spread, 0.7);
  EXPECT_EQ(read->figure("prepare")->why, "figures of 9 passes lie far apart");
  EXPECT_EQ(read->figure("copy_s"), nullptr);
  EXPECT_FALSE(read->is_certain());
}

TEST(Profile, RefusesFiguresThatAreNone) {
  const nlohmann::json whole = nlohmann::json::parse(to_json([] {
    Profile profile = sample_profile();
    profile.figures = {{"trip_s", 1.2e-6, 0.03, true, "x"}, {"copy_s", 1e-6, 0.5, false, ""}};
    return profile;
  }()));
  ASSERT_TRUE(parse_profile(whole.dump()).ok());
  const std::vector<std::pair<const char*, nlohmann::json>> changes = {
      {"/figures", 7},
      {"/figures", std::vector<int>(15, 0)},
      {"/figures/0", "trip_s"},
      {"/figures/0/name", ""},
      {"/figures/0/name", "speed"},
      {"/figures/0/name", "copy_s"},  // a repeated name
      {"/figures/0/value", "fast"},
      {"/figures/0/value", 1e300},
      {"/figures/0/value", nullptr},
      {"/figures/0/spread", -0.1},
      {"/figures/0/spread", 1e7},
      {"/figures/0/certain", 1},
      {"/figures/0/certain", nullptr},
      {"/others", 7},
      {"/others", std::string(1025, 'x')},
      {"/figures/0/why", 7},
      {"/figures/0/why", std::string(1025, 'x')}};
  for (const auto& [where, value] : changes) {
    nlohmann::json changed = whole;
    changed[nlohmann::json::json_pointer(where)] = value;
    const auto read = parse_profile(changed.dump());
    ASSERT_FALSE(read.ok()) << where << " " << value;
  }
}

TEST(Profile, RefusesLessonsThatAreNone) {
  const nlohmann::json whole = nlohmann::json::parse(to_json([] {
    Profile profile = sample_profile();
    profile.lessons = EngineLessons();
    profile.lessons->plans.seen.push_back({{1, 9, 2}, {{{1}, {1.5}, {2}}}, 7, 0});
    return profile;
  }()));
  const std::vector<std::pair<const char*, nlohmann::json>> changes = {
      {"/lessons", 7},
      {"/lessons/link", "fast"},
      {"/lessons/link", {1.0, "x"}},
      {"/lessons/link", std::vector<double>(65, 1.0)},
      {"/lessons/layers", {1, 2, 3}},
      {"/lessons/layers/4", 1.5},
      {"/lessons/read_xa/0", {nullptr}},
      {"/lessons/plans", 7},
      {"/lessons/plans/version", "one"},
      {"/lessons/plans/seen", "all"},
      {"/lessons/plans/seen/0", {1, 9, 2}},
      {"/lessons/plans/seen/0/rows", 256},
      {"/lessons/plans/seen/0/link", -1},
      {"/lessons/plans/seen/0/steps", std::uint64_t{1} << 32},
      {"/lessons/plans/seen/0/wait", std::vector<double>(65, 1.0)},
      {"/lessons/plans/seen/0/assist", {"x"}},
      {"/lessons/plans/seen", std::vector<int>(513, 0)}};
  for (const auto& [where, value] : changes) {
    nlohmann::json changed = whole;
    changed[nlohmann::json::json_pointer(where)] = value;
    const auto read = parse_profile(changed.dump());
    ASSERT_FALSE(read.ok()) << where;
    EXPECT_THAT(read.status().message(), HasSubstr("lessons")) << where;
  }
}

TEST(Profile, ReplacesTheOldFileWholeAndLeavesNothingBeside) {
  const testing::TempDir dir;
  const std::filesystem::path path = dir.path() / "profile.json";
  std::ofstream(path) << "old";
  ASSERT_TRUE(write_profile(sample_profile(), path).ok());
  EXPECT_TRUE(read_profile(path).ok());
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(Profile, SaysWhereItCannotBeWritten) {
  const testing::TempDir dir;
  std::ofstream(dir.path() / "file") << "x";
  const Status status = write_profile(sample_profile(), dir.path() / "file" / "profile.json");
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("file"));
}

TEST(Profile, IsRefusedOnAMachineOrModelThatItDoesNotDescribe) {
  const Profile profile = sample_profile();
  ProfileMachine other = here();
  other.cpu = "Another CPU";
  EXPECT_THAT(check_profile(profile, other, profile.model).message(),
              HasSubstr("the CPU is Another CPU, the profile is of Some CPU"));
  other = here();
  other.cores = 8;
  EXPECT_THAT(check_profile(profile, other, profile.model).message(),
              HasSubstr("the number of cores is 8, the profile is of 16"));
  other = here();
  other.device = "host";
  EXPECT_THAT(check_profile(profile, other, profile.model).message(),
              HasSubstr("the device is host, the profile is of NVIDIA H200"));
  ProfileModel model = profile.model;
  model.dtype = DType::f32;
  model.num_kv_heads = 8;
  model.devices = 2;
  const std::string message = check_profile(profile, here(), model).message();
  EXPECT_THAT(message, HasSubstr("KV heads is 8"));
  EXPECT_THAT(message, HasSubstr("dtype is f32"));
  EXPECT_THAT(message, HasSubstr("devices that share it is 2, the profile is of 1"));
  EXPECT_THAT(message, HasSubstr("tandem profile"));
  model = profile.model;
  model.name = "the same by another name";
  EXPECT_TRUE(check_profile(profile, here(), model).ok());
}

TEST(Profile, RefusesAnotherVersionAndWhatIsNoProfile) {
  nlohmann::json json = nlohmann::json::parse(to_json(sample_profile()));
  json["tandem_profile"] = 2;
  EXPECT_THAT(parse_profile(json.dump()).status().message(), HasSubstr("version 2"));
  EXPECT_THAT(parse_profile("{}").status().message(), HasSubstr("not a profile"));
  EXPECT_FALSE(parse_profile("").ok());
  EXPECT_FALSE(parse_profile("[1, 2]").ok());
  EXPECT_FALSE(read_profile("/nonexistent/profile.json").ok());
}

TEST(Profile, NeedsEveryCostWithinItsRange) {
  const nlohmann::json good = nlohmann::json::parse(to_json(sample_profile()));
  for (const CostField& field : cost_fields()) {
    nlohmann::json bad = good;
    bad["costs"].erase(field.key);
    EXPECT_THAT(parse_profile(bad.dump()).status().message(), HasSubstr(field.key));
    for (const double value : {-1.0, field.high * 2, 1e300}) {
      bad["costs"][field.key] = value;
      EXPECT_THAT(parse_profile(bad.dump()).status().message(), HasSubstr(field.key)) << value;
    }
    bad["costs"][field.key] = nullptr;
    EXPECT_FALSE(parse_profile(bad.dump()).ok());
    bad["costs"][field.key] = "1e9";
    EXPECT_FALSE(parse_profile(bad.dump()).ok());
  }
  nlohmann::json bad = good;
  bad["tables"][0]["rows"][0] = {1};
  EXPECT_FALSE(parse_profile(bad.dump()).ok());
  bad = good;
  bad["model"]["num_layers"] = -1;
  EXPECT_FALSE(parse_profile(bad.dump()).ok());
  bad = good;
  bad["machine"]["cpu"] = std::string(100000, 'x');
  EXPECT_FALSE(parse_profile(bad.dump()).ok());
}

// Damages the file in ways that a stranger might: changed bytes, lost or doubled pieces, swapped
// values.
TEST(Profile, WhateverTheFileHoldsGivesAProfileOrAReason) {
  const std::string good = to_json(sample_profile());
  const std::vector<std::string> inserts = {
      "NaN", "1e999", "-1",   "null",     "[[[[[",
      "{}",  "\"",    "\x01", "Infinity", "18446744073709551616"};
  int accepted = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::string text = good;
    for (std::uint64_t edits = 1 + random() % 3; edits > 0 && !text.empty(); --edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 5) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 40);
          break;
        case 2:
          text.insert(at, inserts[random() % inserts.size()]);
          break;
        case 3:
          text.insert(at, text.substr(random() % text.size(), random() % 60));
          break;
        default:
          text.resize(at);
          break;
      }
    }
    const auto profile = parse_profile(text);
    if (!profile) {
      EXPECT_FALSE(profile.status().message().empty());
      continue;
    }
    ++accepted;
    for (const CostField& field : cost_fields()) {
      const double value = profile->costs.*field.member;
      EXPECT_TRUE(value >= field.low && value <= field.high) << field.key;
    }
    EXPECT_TRUE(parse_profile(to_json(*profile)).ok());
  }
  EXPECT_GT(accepted, 0);  // changed digits of samples may be accepted
}

}  // namespace
}  // namespace tandem
