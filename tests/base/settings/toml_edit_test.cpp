#include "base/settings/toml_edit.h"

#include <gmock/gmock.h>

namespace tandem {
namespace {

using testing::HasSubstr;

std::string set(std::string_view text, const std::string& key = "cpus",
                const std::string& value = "\"0-3\"") {
  const Result<std::string> made = set_toml_values(text, "x.toml", {{key, value}});
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made ? *made : "";
}

TEST(TomlEdit, ChangesAValueAndKeepsItsLineAndComment) {
  EXPECT_EQ(set("# top\nport = 1\n  cpus   =  \"9\"   # why\nhost = \"x\"\n"),
            "# top\nport = 1\n  cpus   =  \"0-3\"   # why\nhost = \"x\"\n");
}

TEST(TomlEdit, AddsAKeyBehindTheLast) {
  EXPECT_EQ(set("port = 1  # one\n\n# the end\n"),
            "port = 1  # one\ncpus = \"0-3\"\n\n# the end\n");
  EXPECT_EQ(set("port = 1"), "port = 1\ncpus = \"0-3\"\n");
  EXPECT_EQ(set(""), "cpus = \"0-3\"\n");
  EXPECT_EQ(set("# nothing yet\n"), "# nothing yet\ncpus = \"0-3\"\n");
}

TEST(TomlEdit, AddsAKeyBeforeTheFirstHeading) {
  EXPECT_EQ(set("port = 1\n\n[other]\ncpus = \"7\"\n"),
            "port = 1\ncpus = \"0-3\"\n\n[other]\ncpus = \"7\"\n");
  EXPECT_EQ(set("[other]\ncpus = \"7\"\n"), "cpus = \"0-3\"\n[other]\ncpus = \"7\"\n");
}

TEST(TomlEdit, SeesValuesThatOnlyLookLikeKeys) {
  EXPECT_EQ(set("# cpus = \"1\"\nnote = \"\"\"\ncpus = 2\n\"\"\"\n'cpus' = \"3\"\n"),
            "# cpus = \"1\"\nnote = \"\"\"\ncpus = 2\n\"\"\"\n'cpus' = \"0-3\"\n");
}

TEST(TomlEdit, CountsLettersNotBytes) {
  EXPECT_EQ(set("\"größe\" = \"ä\"\ncpus = \"übel\" # ö\nlist = [\n  \"é\", # a\n]\n"),
            "\"größe\" = \"ä\"\ncpus = \"0-3\" # ö\nlist = [\n  \"é\", # a\n]\n");
  EXPECT_EQ(set("list = [\n  \"é\", # a\n]\n"), "list = [\n  \"é\", # a\n]\ncpus = \"0-3\"\n");
}

TEST(TomlEdit, KeepsLineEndsOfWindows) {
  EXPECT_EQ(set("port = 1\r\ncpus = \"\"\r\n"), "port = 1\r\ncpus = \"0-3\"\r\n");
  EXPECT_EQ(set("port = 1\r\n"), "port = 1\r\ncpus = \"0-3\"\r\n");
}

TEST(TomlEdit, SetsSeveralKeysAndIsDoneWhenTheyAreSo) {
  const std::vector<std::pair<std::string, std::string>> values = {
      {"cpus", "\"0-3\""}, {"worker_cpus", "\"4-15\""}, {"cpu_workers", "12"}};
  const Result<std::string> once = set_toml_values("cpu_workers = 1\nport = 2\n", "x", values);
  ASSERT_TRUE(once.ok());
  EXPECT_EQ(*once, "cpu_workers = 12\nport = 2\ncpus = \"0-3\"\nworker_cpus = \"4-15\"\n");
  EXPECT_EQ(*set_toml_values(*once, "x", values), *once);
}

TEST(TomlEdit, RefusesWhatIsNotToml) {
  const Result<std::string> made = set_toml_values("port = \n", "x.toml", {{"cpus", "1"}});
  EXPECT_EQ(made.status().code(), StatusCode::invalid_argument);
  EXPECT_THAT(made.status().message(), HasSubstr("x.toml:1: not TOML"));
}

}  // namespace
}  // namespace tandem
