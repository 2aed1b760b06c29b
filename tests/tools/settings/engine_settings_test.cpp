#include "tools/settings/engine_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names(const std::vector<NamedAdapter>& adapters) {
  std::vector<std::string> out;
  for (const NamedAdapter& adapter : adapters) out.push_back(adapter.name);
  return out;
}

TEST(ListAdapters, TakesEachSubfolderByNameInOrder) {
  const auto found = list_adapters("data/demo-llama/adapters", {"mine=some/dir=x"});
  ASSERT_TRUE(found) << found.status().message();
  EXPECT_THAT(names(*found), ElementsAre("cheader", "docstring", "license", "python", "mine"));
}

// For REST a relative path is below an adapter_root, not below the server's working directory.
TEST(ListAdapters, TellsAbsolutePathsOfRelativeOnes) {
  namespace fs = std::filesystem;
  const auto found = list_adapters("data/demo-llama/adapters", {"mine=some/dir=x", "there=/a/b"});
  ASSERT_TRUE(found) << found.status().message();
  const fs::path here = fs::current_path();
  EXPECT_EQ(found->front().path, (here / "data/demo-llama/adapters/cheader").string());
  EXPECT_EQ((*found)[4].path, (here / "some/dir=x").string());
  EXPECT_EQ((*found)[5].path, "/a/b");
}

// Later reads follow no links, so an operator's links are resolved here.
TEST(ListAdapters, TellsWhereALinkLeads) {
  namespace fs = std::filesystem;
  const testing::TempDir dir;
  const fs::path there = fs::canonical("data/demo-llama/adapters/python");
  fs::create_directory_symlink(there, dir.path() / "poet");
  const auto found = list_adapters(dir.path(), {"mine=" + (dir.path() / "poet").string()});
  ASSERT_TRUE(found) << found.status().message();
  EXPECT_THAT(names(*found), ElementsAre("poet", "mine"));
  for (const NamedAdapter& adapter : *found) EXPECT_EQ(adapter.path, there.string());
}

TEST(ListAdapters, RefusesMissingFoldersBadAndRepeatedNames) {
  EXPECT_THAT(list_adapters("no/such", {}).status().message(), HasSubstr("no/such"));
  EXPECT_THAT(list_adapters("data/demo-llama", {}).status().message(),
              HasSubstr("no subfolder of data/demo-llama has an adapter_config.json"));
  EXPECT_THAT(list_adapters("", {"nodir"}).status().message(),
              HasSubstr("'nodir' is not NAME=DIR"));
  EXPECT_THAT(list_adapters("", {"nodir="}).status().message(),
              HasSubstr("'nodir=' is not NAME=DIR"));
  EXPECT_THAT(list_adapters("", {"=x"}).status().message(), HasSubstr("empty"));
  EXPECT_THAT(list_adapters("", {"a=x", "a=y"}).status().message(),
              HasSubstr("'a' is given twice"));
  EXPECT_THAT(list_adapters("data/demo-llama/adapters", {"python=x"}).status().message(),
              HasSubstr("'python' is given twice"));
}

TEST(ServeSettings, NamesThatAreGoneAreRefusedWithWhatToDoInstead) {
  EngineSettings engine;
  ServerSettings server;
  SettingsTable table;
  add_serve_settings(table, engine, server);
  const testing::TempDir dir;
  const std::pair<const char*, const char*> gone[] = {{"gpu", "use gpus"},
                                                      {"pool_pages", "use pool_gb"},
                                                      {"page_tokens", "leave it out"},
                                                      {"max_answer_mb", "use max_answers_mb"}};
  for (const auto& [key, remedy] : gone) {
    const auto path = dir.write("settings.toml", std::string(key) + " = 1\n");
    EXPECT_THAT(table.load_file(path).message(), HasSubstr(remedy)) << key;
  }
}

// `tandem serve --config` must accept every file in configs/.
TEST(Configs, EveryFileReadsAndValidates) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("../configs")) {
    if (entry.path().extension() != ".toml") continue;
    ++files;
    EngineSettings engine;
    ServerSettings server;
    SettingsTable table;
    add_serve_settings(table, engine, server);
    Status status = table.load_file(entry.path());
    ASSERT_TRUE(status) << status.message();
    status = table.validate();
    EXPECT_TRUE(status) << entry.path() << ": " << status.message();
  }
  EXPECT_GE(files, 2U);
}

}  // namespace
}  // namespace tandem
