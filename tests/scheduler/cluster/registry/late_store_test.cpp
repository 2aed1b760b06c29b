// Another process holds the registry's file when it is opened.
#include "scheduler/cluster/registry/late_store.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "scheduler/cluster/registry/registry.h"
#include "scheduler/cluster/registry/sqlite_file.h"
#include "scheduler/cluster/registry/sqlite_store.h"
#include "tests/scheduler/cluster/registry/registry_suite.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using testing::make_adapter;
using testing::TempDir;

TEST(LateRegistry, OpensBesideALockAndIsThereWhenTheLockIsGone) {
  const TempDir dir;
  const std::string path = (dir.path() / "registry.db").string();
  ASSERT_TRUE((*open_registry("sqlite:" + path))->add_adapter(make_adapter("code", 1)).ok());
  const auto holder = SqliteFile::open(path, {});
  ASSERT_TRUE(holder) << holder.status().message();
  ASSERT_TRUE((*holder)->run("BEGIN EXCLUSIVE"));
  const auto registry = open_registry("sqlite:" + path);
  ASSERT_TRUE(registry) << registry.status().message();
  ASSERT_TRUE((*holder)->run("ROLLBACK"));
  EXPECT_EQ((*registry)->snapshot()->adapters.size(), 1U);
  EXPECT_TRUE((*registry)->add_adapter(make_adapter("law", 2)).ok());
}

TEST(LateStore, IsUnavailableUntilItCanBeOpened) {
  const TempDir dir;
  bool is_locked = true;
  int asked = 0;
  int patient = 0;
  const auto store =
      LateStore::open([&](bool is_patient) -> Result<std::unique_ptr<RegistryStore>> {
        ++asked;
        patient += is_patient ? 1 : 0;
        if (is_locked) return error(StatusCode::unavailable, "it is locked");
        TANDEM_ASSIGN(auto opened, SqliteStore::open((dir.path() / "registry.db").string()));
        return std::unique_ptr<RegistryStore>(std::move(opened));
      });
  ASSERT_TRUE(store);
  EXPECT_EQ((*store)->read("a").status().code(), StatusCode::unavailable);
  EXPECT_EQ((*store)->keep_lease(1).code(), StatusCode::unavailable);
  EXPECT_EQ((*store)->watch(1, std::chrono::milliseconds(1)).status().code(),
            StatusCode::unavailable);
  is_locked = false;
  EXPECT_TRUE((*store)->grant_lease(std::chrono::seconds(9)));
  EXPECT_TRUE((*store)->read("a"));
  EXPECT_EQ(asked, 5) << "once it is open, never again";
  EXPECT_EQ(patient, 4);
}

TEST(LateStore, SaysAtOnceWhatTimeDoesNotMend) {
  const auto refused = LateStore::open([](bool) -> Result<std::unique_ptr<RegistryStore>> {
    return error(StatusCode::permission_denied, "it may not be read");
  });
  EXPECT_EQ(refused.status().code(), StatusCode::permission_denied);
}

}  // namespace
}  // namespace tandem
