#include "scheduler/cluster/registry/registry_entries.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/scheduler/cluster/registry/registry_suite.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using tandem::testing::make_adapter;
using tandem::testing::make_engine;
using ::testing::HasSubstr;

TEST(RegistryEntries, AreReadAsTheyWereWritten) {
  AdapterEntry adapter = make_adapter("team/sql-v2", 5);
  adapter.version = 3;
  adapter.owner = "Jos\u00e9 \"x\"";
  adapter.bytes = std::uint64_t{1} << 40;
  const auto read = parse_adapter_entry(to_json(adapter));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, adapter);
  const EngineEntry engine = make_engine("e-1");
  const auto engine_read = parse_engine_entry(to_json(engine));
  ASSERT_TRUE(engine_read.ok()) << engine_read.status().message();
  EXPECT_EQ(*engine_read, engine);
}

TEST(RegistryEntries, MembersOfALaterVersionAreReadPast) {
  auto json = nlohmann::json::parse(to_json(make_engine("e1")));
  json["zone"] = "b";
  EXPECT_TRUE(parse_engine_entry(json.dump()).ok());
}

TEST(RegistryEntries, WhatIsNoneIsRefusedWithTheReason) {
  const auto changed = [](const char* member, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(to_json(make_adapter("sql", 1)));
    json[member] = value;
    return parse_adapter_entry(json.dump()).status().message();
  };
  EXPECT_THAT(changed("name", "a b"), HasSubstr("an adapter's name must be"));
  EXPECT_THAT(changed("name", 3), HasSubstr("'name' is not a string"));
  EXPECT_THAT(changed("version", -1), HasSubstr("version must not be negative"));
  EXPECT_THAT(changed("version", 1.5), HasSubstr("'version' is not a whole number"));
  EXPECT_THAT(changed("version", ~std::uint64_t{0}), HasSubstr("'version' is not a whole number"));
  EXPECT_THAT(changed("rank", 0), HasSubstr("rank 0 is not in"));
  EXPECT_THAT(changed("modules", "q"), HasSubstr("'modules' is not a list"));
  EXPECT_THAT(changed("modules", nlohmann::json::array()), HasSubstr("modules must be"));
  EXPECT_THAT(changed("digest", "XYZ"), HasSubstr("digest must be 32"));
  EXPECT_THAT(changed("bytes", -1), HasSubstr("'bytes' is not a whole number from 0"));
  EXPECT_THAT(changed("owner", "a\x1b[2Jb"), HasSubstr("owner must be one line"));
  EXPECT_THAT(parse_adapter_entry("[]").status().message(), HasSubstr("not a JSON object"));
  EXPECT_THAT(parse_adapter_entry(std::string(100'000, '[')).status().message(),
              HasSubstr("over 65536 bytes"));
  EXPECT_FALSE(parse_adapter_entry(std::string(60'000, '[')).ok());
  EXPECT_FALSE(parse_engine_entry("{}").ok());
}

TEST(RegistryEntries, DamagedTextIsRefusedOrStillAnEntry) {
  std::mt19937_64 random(test_seed());
  const std::string whole = to_json(make_adapter("sql", 1));
  for (int i = 0; i < 2000; ++i) {
    std::string text = whole;
    for (int k = 0; k < 3; ++k) text[random() % text.size()] = static_cast<char>(random());
    if (random() % 2 == 0) text.resize(random() % text.size());
    const auto entry = parse_adapter_entry(text);
    if (entry) {
      EXPECT_TRUE(check(*entry).ok()) << text;
    }
  }
}

}  // namespace
}  // namespace tandem
