#include "base/settings/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

struct Sample {
  std::string model;
  std::int64_t port = 8000;
  double gigabytes = 0.5;
  bool pin = false;
  std::string device = "auto";
  std::vector<std::string> adapter;
  std::string api_key;
  std::string prompt;
  std::int64_t other = 1;
};

class Settings : public ::testing::Test {
 protected:
  Settings() {
    table.group("Model");
    table.add(s.model, "model", "checkpoint folder").meta("DIR").required();
    table.add(s.adapter, "adapter", "one adapter").meta("NAME=DIR");
    table.add(s.device, "device", "where to compute").choices({"auto", "cuda", "host"});
    table.group("Server");
    table.add(s.port, "port", "port to listen on").range(0, 65535);
    table.add(s.gigabytes, "kv_cache_gb", "memory").at_least(0);
    table.add(s.pin, "pin", "pin threads");
    table.add(s.api_key, "api_key", "secret").secret();
    table.add(s.prompt, "prompt", "text").flag_only().short_flag('p');
    table.add(s.other, "other", "another command's").in_file_only();
  }

  std::filesystem::path write(std::string_view text) { return dir.write("settings.toml", text); }

  Status environment(const std::map<std::string, std::string>& variables) {
    return table.load_environment([&](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  }

  Sample s;
  SettingsTable table;
  tandem::testing::TempDir dir;
};

TEST_F(Settings, AKeyYieldsItsFlagVariableAndDefault) {
  const SettingsField& field = *table.find("kv_cache_gb");
  EXPECT_EQ(flag_of(field.facts()), "--kv-cache-gb");
  EXPECT_EQ(environment_of(field.facts()), "TANDEM_KV_CACHE_GB");
  EXPECT_EQ(field.facts().default_text, "0.5");
  EXPECT_EQ(field.facts().group, "Server");
  EXPECT_EQ(value_name_of(table.find("device")->facts()), "auto|cuda|host");
  EXPECT_EQ(value_name_of(table.find("model")->facts()), "DIR");
  EXPECT_EQ(environment_of(table.find("prompt")->facts()), "");
  EXPECT_EQ(table.find("nonsense"), nullptr);
}

TEST_F(Settings, LaterSourcesOverwriteEarlierOnes) {
  ASSERT_TRUE(table.load_file(write("port = 1\nkv_cache_gb = 2\npin = true\nmodel = \"m\"\n")));
  EXPECT_EQ(s.port, 1);
  EXPECT_EQ(s.gigabytes, 2.0);
  EXPECT_TRUE(s.pin);
  EXPECT_THAT(table.find("port")->facts().source, HasSubstr(".toml:1"));
  ASSERT_TRUE(environment({{"TANDEM_PORT", "2"}, {"TANDEM_PROMPT", "no"}}));
  EXPECT_EQ(s.port, 2);
  EXPECT_EQ(s.prompt, "");
  EXPECT_EQ(table.find("port")->facts().source, "TANDEM_PORT");
  ASSERT_TRUE(table.find("port")->set({"3"}, "--port"));
  EXPECT_EQ(s.port, 3);
  EXPECT_EQ(s.gigabytes, 2.0);
  EXPECT_TRUE(table.validate());
}

TEST_F(Settings, ListsComeFromArraysSingleStringsAndCommas) {
  ASSERT_TRUE(table.load_file(write("adapter = [\"a=x\", \"b=y\"]\n")));
  EXPECT_THAT(s.adapter, ElementsAre("a=x", "b=y"));
  ASSERT_TRUE(environment({{"TANDEM_ADAPTER", "c=z,d=w"}}));
  EXPECT_THAT(s.adapter, ElementsAre("c=z", "d=w"));
  ASSERT_TRUE(table.load_file(write("adapter = \"e=v\"\n")));
  EXPECT_THAT(s.adapter, ElementsAre("e=v"));
}

TEST_F(Settings, AnUnknownKeyIsNamedWithItsLineAndTheNearestKey) {
  const Status status = table.load_file(write("# comment\n\nprot = 1\n"));
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_THAT(status.message(), HasSubstr(".toml:3: unknown key 'prot'; did you mean 'port'?"));
  EXPECT_THAT(table.load_file(write("zzzzzzzz = 1\n")).message(),
              HasSubstr("unknown key 'zzzzzzzz'"));
}

TEST_F(Settings, KeysOfOtherCommandsArePassedOverAndThoseOfNoneAreRefused) {
  int asked = 0;
  const FileReader reader{"tandem pick", [&asked] {
                            ++asked;
                            return std::vector<std::string>{"policy", "prompt", "adapter_root"};
                          }};
  ASSERT_TRUE(table.load_file(write("port = 4\n"), reader));
  EXPECT_EQ(asked, 0);
  const char* shared = "policy = 2020-01-01\nport = 5\nprompt = 1\nadapter_root = [1]\n";
  ASSERT_TRUE(table.load_file(write(shared), reader));
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(s.port, 5);
  EXPECT_EQ(s.prompt, "");
  EXPECT_THAT(table.load_file(write("policy = 1\nadapter_rot = 1\n"), reader).message(),
              HasSubstr(".toml:2: unknown key 'adapter_rot'; did you mean 'adapter_root'?"));
  EXPECT_THAT(table.load_file(write("zzzzzzzz = 1\n"), reader).message(),
              HasSubstr("unknown key 'zzzzzzzz'; `tandem pick --help` lists the keys"));
}

TEST_F(Settings, AKeyThatIsGoneIsRefusedWithTheOneToUse) {
  table.retire("gpu", "use device");
  const auto path = write("port = 1\ngpu = 2\n");
  EXPECT_EQ(table.load_file(path).message(),
            "gpu is no longer a setting (from " + path.string() + ":2); use device");
  EXPECT_EQ(environment({{"TANDEM_GPU", "2"}}).message(),
            "gpu is no longer a setting (from TANDEM_GPU); use device");
  EXPECT_TRUE(environment({{"TANDEM_PORT", "2"}}));
}

TEST_F(Settings, AReaderOfAnyKeyPassesOverAllOthers) {
  FileReader reader;
  reader.any_key = true;
  ASSERT_TRUE(table.load_file(write("zzzzzzzz = 1\nport = 6\n"), reader));
  EXPECT_EQ(s.port, 6);
}

TEST_F(Settings, AFlagOnlyFieldIsNoKeyOfTheFile) {
  EXPECT_THAT(table.load_file(write("prompt = \"x\"\n")).message(),
              HasSubstr("unknown key 'prompt'"));
}

TEST_F(Settings, AnotherCommandsKeyIsAcceptedInTheFileOnly) {
  ASSERT_TRUE(table.load_file(write("other = 7\n")));
  EXPECT_EQ(s.other, 7);
  EXPECT_FALSE(table.find("other")->facts().has_flag);
  ASSERT_TRUE(environment({{"TANDEM_OTHER", "9"}}));
  EXPECT_EQ(s.other, 7);
}

TEST_F(Settings, RefusesTablesDatesAndMixedLists) {
  EXPECT_THAT(table.load_file(write("[port]\nx = 1\n")).message(),
              HasSubstr("must be a single value"));
  EXPECT_THAT(table.load_file(write("port = 2020-01-01\n")).message(), HasSubstr("'port' must be"));
  EXPECT_THAT(table.load_file(write("adapter = [1]\n")).message(), HasSubstr("list of strings"));
  EXPECT_THAT(table.load_file(write("port = [1]\n")).message(),
              HasSubstr("must be a single value"));
}

TEST_F(Settings, BrokenAndMissingFilesAreClearErrors) {
  EXPECT_THAT(table.load_file(write("port = = 1\n")).message(), HasSubstr(".toml:1: not TOML"));
  const Status missing = table.load_file("no/such/file.toml");
  EXPECT_EQ(missing.code(), StatusCode::not_found);
  EXPECT_THAT(missing.message(), HasSubstr("no/such/file.toml"));
  EXPECT_THAT(table.load_file(".").message(), HasSubstr("is a folder"));
}

TEST_F(Settings, NamesAStringThatIsNotClosed) {
  for (const char* text :
       {"port = 1\nhost = \"a\nqueue = 3\n", "port = 1\nhost = \"a", "port = 1\nhost = 'a\n",
        "port = 1\nhosts = [\"a\", \"b\n]\n", "port = 1\nhost = \"\"\"a"}) {
    EXPECT_THAT(table.load_file(write(text)).message(),
                EndsWith(".toml:2: a string is not closed; add the quote at its end"))
        << text;
  }
  EXPECT_THAT(table.load_file(write("host = \"a\x01z\"\n")).message(), HasSubstr("not TOML"));
  EXPECT_THAT(table.load_file(write("host = here\n")).message(), HasSubstr("a string in quotes"));
}

TEST_F(Settings, ABadValueNamesTheFieldTheValueAndTheSource) {
  EXPECT_EQ(environment({{"TANDEM_PORT", "80x"}}).message(),
            "port must be a whole number, not '80x' (from TANDEM_PORT)");
  EXPECT_EQ(table.find("pin")->set({"maybe"}, "--pin").message(),
            "pin must be true or false, not 'maybe' (from --pin)");
  EXPECT_THAT(table.load_file(write("port = 1.5\n")).message(),
              HasSubstr("port must be a whole number"));
  EXPECT_FALSE(table.find("kv_cache_gb")->set({"nan"}, "flag"));
  EXPECT_FALSE(table.find("kv_cache_gb")->set({"1e999"}, "flag"));
  EXPECT_FALSE(table.find("port")->set({"99999999999999999999"}, "flag"));
}

TEST_F(Settings, ValidateChecksRangesChoicesAndRequiredFields) {
  EXPECT_EQ(
      table.validate().message(),
      "model is missing; give --model DIR, or set TANDEM_MODEL, or write model in the config file");
  s.model = "m";
  ASSERT_TRUE(table.find("port")->set({"70000"}, "--port"));
  EXPECT_EQ(table.validate().message(),
            "port must be between 0 and 65535, not 70000 (from --port)");
  ASSERT_TRUE(table.find("port")->set({"0"}, "--port"));
  ASSERT_TRUE(table.find("kv_cache_gb")->set({"-1"}, "TANDEM_KV_CACHE_GB"));
  EXPECT_EQ(table.validate().message(),
            "kv_cache_gb must be at least 0, not -1 (from TANDEM_KV_CACHE_GB)");
  ASSERT_TRUE(table.find("kv_cache_gb")->set({"1"}, "flag"));
  ASSERT_TRUE(table.find("device")->set({"tpu"}, "--device"));
  EXPECT_EQ(table.validate().message(),
            "device must be auto, cuda, host, not 'tpu' (from --device)");
}

TEST_F(Settings, PrintsATomlFileThatReadsBackAndHidesSecrets) {
  ASSERT_TRUE(environment(
      {{"TANDEM_MODEL", "a \"b\"\\c"}, {"TANDEM_API_KEY", "s3cret"}, {"TANDEM_PORT", "5"}}));
  const std::string printed = table.to_toml();
  EXPECT_THAT(printed, HasSubstr("port = 5  # TANDEM_PORT\n"));
  EXPECT_THAT(printed, HasSubstr("# api_key = (set)"));
  EXPECT_EQ(printed.find("s3cret"), std::string::npos);
  EXPECT_EQ(printed.find("prompt"), std::string::npos);
  s = Sample{};
  const Status status = table.load_file(write(printed));
  ASSERT_TRUE(status) << status.message() << "\n" << printed;
  EXPECT_EQ(s.model, "a \"b\"\\c");
  EXPECT_EQ(s.port, 5);
  EXPECT_EQ(s.gigabytes, 0.5);
}

TEST(Nearest, FindsTypingErrorsAndNothingElse) {
  const std::vector<std::string> words = {"serve", "generate", "bench"};
  EXPECT_EQ(nearest("sevre", words), "serve");
  EXPECT_EQ(nearest("genrate", words), "generate");
  EXPECT_EQ(nearest("quantise", words), "");
  EXPECT_EQ(nearest("prot", {"port"}), "port") << "two letters swapped are one mistake";
  EXPECT_EQ(nearest("--n", {"--pin"}), "") << "a flag's dashes are no letters";
  EXPECT_EQ(nearest("--prt", {"--pin", "--port"}), "--port");
  EXPECT_EQ(nearest("", words), "");
}

TEST(SecretSettings, AreRefusedWhenEmpty) {
  std::string key;
  SettingsTable table;
  table.add(key, "key", "secret").secret();
  EXPECT_TRUE(table.validate().ok());
  const auto lookup = [](const char* name) {
    return std::string(name) == "TANDEM_KEY" ? "" : nullptr;
  };
  ASSERT_TRUE(table.load_environment(lookup).ok());
  const Status status = table.validate();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), ::testing::HasSubstr("TANDEM_KEY"));
  EXPECT_THAT(status.message(), ::testing::HasSubstr("is empty"));
}

enum class Speed { slow, fast };
constexpr Speed kSpeeds[] = {Speed::slow, Speed::fast};
std::string_view to_string(Speed speed) {
  return speed == Speed::slow ? "slow" : "fast";
}

struct Options {
  std::int32_t rows = 6;
  std::uint64_t seed = 1;
  Duration patience = std::chrono::milliseconds(1500);
  double pause_s = 0.25;
  std::size_t bytes = 8U << 20;
  std::size_t cache_bytes = 64U << 20;
  std::uint64_t store_bytes = 10'000'000'000;
  Speed speed = Speed::slow;
};

class BoundSettings : public ::testing::Test {
 protected:
  BoundSettings() {
    table.add(o.rows, "rows", "").range(1, 100);
    table.add(o.seed, "seed", "").at_least(0);
    table.add(o.patience, "patience_s", "").range(0, 60);
    table.add(in_ms(o.pause_s), "pause_ms", "");
    table.add(in_mb(o.bytes), "body_mb", "");
    table.add(in_mb<std::int64_t>(o.cache_bytes), "cache_mb", "");
    table.add(in_gb(o.store_bytes), "store_gb", "");
    table.add(by_name(o.speed, kSpeeds), "speed", "");
  }

  Status set(const char* key, const char* text) { return table.find(key)->set({text}, "flag"); }
  std::string default_of(const char* key) { return table.find(key)->facts().default_text; }

  Options o;
  SettingsTable table;
};

TEST_F(BoundSettings, DefaultsAreTheMembersInTheUnitsOfTheSettings) {
  EXPECT_EQ(default_of("rows"), "6");
  EXPECT_EQ(default_of("patience_s"), "1.5");
  EXPECT_EQ(default_of("pause_ms"), "250");
  EXPECT_EQ(default_of("body_mb"), "8");
  EXPECT_EQ(value_text_of(table.find("cache_mb")->facts()), "64");
  EXPECT_EQ(default_of("store_gb"), "10");
  EXPECT_EQ(default_of("speed"), "slow");
  EXPECT_EQ(value_name_of(table.find("speed")->facts()), "slow|fast");
  EXPECT_EQ(value_name_of(table.find("patience_s")->facts()), "SECONDS");
  EXPECT_EQ(value_name_of(table.find("body_mb")->facts()), "MB");
}

TEST_F(BoundSettings, MembersOfAnyTypeGetWhatWasGivenOnceItIsJudged) {
  ASSERT_TRUE(set("rows", "7"));
  ASSERT_TRUE(set("seed", "9223372036854775807"));
  ASSERT_TRUE(set("patience_s", "0.02"));
  ASSERT_TRUE(set("pause_ms", "1000"));
  ASSERT_TRUE(set("body_mb", "0.5"));
  ASSERT_TRUE(set("cache_mb", "3"));
  ASSERT_TRUE(set("store_gb", "2.5"));
  ASSERT_TRUE(set("speed", "fast"));
  EXPECT_EQ(o.rows, 6);
  SettingsTable copy = table;  // copied, as read_settings() does
  ASSERT_TRUE(copy.validate());
  EXPECT_EQ(o.rows, 7);
  EXPECT_EQ(o.seed, std::uint64_t{9223372036854775807});
  EXPECT_EQ(o.patience, std::chrono::milliseconds(20));
  EXPECT_EQ(o.pause_s, 1.0);
  EXPECT_EQ(o.bytes, std::size_t{1} << 19);
  EXPECT_EQ(o.cache_bytes, std::size_t{3} << 20);
  EXPECT_EQ(o.store_bytes, std::uint64_t{2'500'000'000});
  EXPECT_EQ(o.speed, Speed::fast);
}

TEST_F(BoundSettings, MembersStayAsTheyAreIfAnyValueIsRefused) {
  ASSERT_TRUE(set("pause_ms", "3"));
  ASSERT_TRUE(set("patience_s", "1e300"));
  EXPECT_EQ(table.validate().message(),
            "patience_s must be between 0 and 60, not 1e+300 (from flag)");
  ASSERT_TRUE(set("patience_s", "1"));
  ASSERT_TRUE(set("rows", "5000000000"));
  EXPECT_EQ(table.validate().message(),
            "rows must be between 1 and 100, not 5000000000 (from flag)");
  ASSERT_TRUE(set("rows", "5"));
  ASSERT_TRUE(set("speed", "late"));
  EXPECT_EQ(table.validate().message(), "speed must be slow, fast, not 'late' (from flag)");
  EXPECT_EQ(o.pause_s, 0.25);
}

TEST_F(BoundSettings, DefaultsAreNotConvertedThereAndBack) {
  o.pause_s = 7;
  ASSERT_TRUE(table.validate());
  EXPECT_EQ(o.pause_s, 7);
}

}  // namespace
}  // namespace tandem
