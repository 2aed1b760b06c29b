#include "scheduler/cluster/registry/sqlite_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/clock.h"
#include "scheduler/cluster/registry/registry.h"
#include "tests/scheduler/cluster/registry/registry_suite.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tandem::testing::make_adapter;
using tandem::testing::make_engine;
using tandem::testing::registry_cases;
using tandem::testing::RegistryBench;
using tandem::testing::RegistryCase;
using tandem::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct SqliteBench {
  TempDir dir;
  ManualClock clock;
  SqliteStoreOptions options;
  std::string path = (dir.path() / "registry.db").string();

  SqliteBench() { options.clock = &clock; }
  Result<std::unique_ptr<SqliteStore>> open() const { return SqliteStore::open(path, options); }
  std::unique_ptr<Registry> registry() const {
    auto store = open();
    EXPECT_TRUE(store.ok()) << store.status().message();
    return std::make_unique<Registry>(std::move(*store));
  }
};

class SqliteRegistry : public ::testing::TestWithParam<RegistryCase> {};

TEST_P(SqliteRegistry, KeepsItsPromises) {
  SqliteBench sqlite;
  RegistryBench bench;
  bench.connect = [&] { return sqlite.registry(); };
  bench.pass_time = [&](milliseconds by) { sqlite.clock.advance(by); };
  bench.turns_clock = true;
  GetParam().run(bench);
}

INSTANTIATE_TEST_SUITE_P(Suite, SqliteRegistry,
                         ::testing::ValuesIn(registry_cases().begin(), registry_cases().end()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(SqliteStore, IsForItsOwnerAlone) {
  const mode_t before = ::umask(0);
  SqliteBench sqlite;
  {
    const auto registry = sqlite.registry();
    ASSERT_TRUE(registry->add_adapter(make_adapter("sql", 1)).ok());
    for (const auto& file : std::filesystem::directory_iterator(sqlite.dir.path())) {
      struct stat found {};
      ASSERT_EQ(::stat(file.path().c_str(), &found), 0);
      EXPECT_EQ(found.st_mode & 0777U, 0600U) << file.path();
    }
  }
  ::umask(before);
}

TEST(SqliteStore, IsStillThereWhenItIsOpenedAgain) {
  const SqliteBench sqlite;
  ASSERT_TRUE(sqlite.registry()->add_adapter(make_adapter("sql", 1)).ok());
  EXPECT_TRUE(sqlite.registry()->find_adapter("sql", 1).ok());
}

TEST(SqliteStore, LeasesOfAnEarlierBootHaveLapsed) {
  SqliteBench sqlite;
  const auto lease = sqlite.registry()->register_engine(make_engine("e1"), seconds(60));
  ASSERT_TRUE(lease.ok());
  sqlite.options.boot = "another boot, with a clock of its own";
  const auto registry = sqlite.registry();
  const auto found = registry->snapshot();
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->engines.empty());
  EXPECT_EQ(registry->keep_alive(*lease).code(), StatusCode::not_found);
  EXPECT_TRUE(registry->register_engine(make_engine("e1"), seconds(60)).ok());
}

TEST(SqliteStore, SaysWhenItNoLongerKnowsWhatChanged) {
  SqliteBench sqlite;
  sqlite.options.kept_revisions = 3;
  const auto registry = sqlite.registry();
  const auto before = registry->snapshot();
  ASSERT_TRUE(before.ok());
  for (std::uint64_t content = 0; content < 3; ++content) {
    ASSERT_TRUE(registry->add_adapter(make_adapter("sql", content)).ok());
  }
  auto news = registry->watch(before->revision, milliseconds(0));
  ASSERT_TRUE(news.ok());
  EXPECT_FALSE(news->lost);
  EXPECT_EQ(news->adapters.size(), 3U);
  ASSERT_TRUE(registry->add_adapter(make_adapter("sql", 3)).ok());
  news = registry->watch(before->revision, milliseconds(0));
  ASSERT_TRUE(news.ok());
  EXPECT_TRUE(news->lost);
}

TEST(SqliteStore, AFullDiskLeavesWhatWasThere) {
  SqliteBench sqlite;
  sqlite.options.file.max_bytes = 256 << 10;
  const auto registry = sqlite.registry();
  ASSERT_TRUE(registry->add_adapter(make_adapter("first", 1)).ok());
  Status status;
  std::uint64_t content = 0;
  while (status && content < 10'000) {
    AdapterEntry entry = make_adapter("much", ++content);
    entry.owner = std::string(4000, 'x');
    status = registry->add_adapter(entry).status();
  }
  EXPECT_EQ(status.code(), StatusCode::resource_exhausted);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(sqlite.path), HasSubstr("disk is full")));
  EXPECT_TRUE(registry->find_adapter("first").ok());
  const auto versions = registry->adapter_versions("much");
  ASSERT_TRUE(versions.ok());
  EXPECT_EQ(versions->size(), content - 1);
}

TEST(SqliteStore, AWriterThatTakesTooLongIsSaid) {
  SqliteBench sqlite;
  sqlite.options.file.busy_timeout = milliseconds(30);
  const auto registry = sqlite.registry();
  const auto other = SqliteFile::open(sqlite.path, {});
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE((*other)->run("BEGIN IMMEDIATE").ok());
  const Status status = registry->add_adapter(make_adapter("sql", 1)).status();
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_THAT(status.message(), HasSubstr("another process has been writing"));
  // A reader does not wait.
  EXPECT_TRUE(registry->snapshot().ok());
  ASSERT_TRUE((*other)->run("ROLLBACK").ok());
  EXPECT_TRUE(registry->add_adapter(make_adapter("sql", 1)).ok());
}

TEST(SqliteStore, FilesOfOthersAreLeftAlone) {
  SqliteBench sqlite;
  sqlite.path = sqlite.dir.write("text.db", std::string(8192, 'a'));
  EXPECT_THAT(sqlite.open().status().message(), HasSubstr("not an SQLite database"));

  sqlite.path = (sqlite.dir.path() / "other.db").string();
  {
    const auto other = SqliteFile::open(sqlite.path, {});
    ASSERT_TRUE(other.ok());
    ASSERT_TRUE((*other)->run("CREATE TABLE songs(title TEXT)").ok());
  }
  EXPECT_THAT(sqlite.open().status().message(), HasSubstr("another program's database"));

  sqlite.path = sqlite.dir.path().string();
  EXPECT_THAT(sqlite.open().status().message(), HasSubstr("not a regular file"));
  sqlite.path = (sqlite.dir.path() / "nowhere/registry.db").string();
  EXPECT_EQ(sqlite.open().status().code(), StatusCode::not_found);
}

TEST(SqliteStore, ANewerFormatIsRefused) {
  const SqliteBench sqlite;
  ASSERT_TRUE(sqlite.open().ok());
  {
    const auto file = SqliteFile::open(sqlite.path, {});
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->run("PRAGMA user_version=7").ok());
  }
  EXPECT_THAT(sqlite.open().status().message(), HasSubstr("a newer Tandem has written it"));
}

TEST(SqliteStore, ADamagedFileIsSaidToBe) {
  const SqliteBench sqlite;
  {
    const auto registry = sqlite.registry();
    for (std::uint64_t content = 0; content < 100; ++content) {
      ASSERT_TRUE(registry->add_adapter(make_adapter("sql", content)).ok());
    }
  }
  // Damages all pages but the first two, which hold the schema.
  constexpr std::uintmax_t kPage = 4096;
  const auto size = std::filesystem::file_size(sqlite.path);
  ASSERT_GT(size, 10 * kPage);
  {
    std::fstream file(sqlite.path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2 * kPage);
    const std::string noise(size - 2 * kPage, '\xA5');
    file.write(noise.data(), static_cast<std::streamsize>(noise.size()));
  }
  const auto store = sqlite.open();
  Status status = store.status();
  if (store) status = (*store)->read("").status();
  EXPECT_EQ(status.code(), StatusCode::internal);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(sqlite.path), HasSubstr("damaged")));
}

TEST(SqliteStore, EntriesThatCannotBeReadAreLeftOutAndCanBeRemoved) {
  const SqliteBench sqlite;
  const auto registry = sqlite.registry();
  ASSERT_TRUE(registry->add_adapter(make_adapter("good", 1)).ok());
  ASSERT_TRUE(registry->add_adapter(make_adapter("bad", 1)).ok());
  {
    const auto store = sqlite.open();
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE(*(*store)->write({{}, {{"adapters/bad@0000000001", "{\"name\": 3}", 0}}, {}}));
  }
  const auto found = registry->snapshot();
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->adapters.size(), 1U);
  EXPECT_EQ(found->adapters.front().name, "good");
  EXPECT_THAT(registry->find_adapter("bad").status().message(),
              AllOf(HasSubstr("adapters/bad@0000000001"), HasSubstr("'name' is not a string")));
  EXPECT_TRUE(registry->remove_adapter("bad").ok());
}

}  // namespace
}  // namespace tandem
