#include "scheduler/cluster/registry/registry_member.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "scheduler/cluster/registry/sqlite_store.h"
#include "tests/scheduler/cluster/registry/etcd_process.h"
#include "tests/scheduler/cluster/registry/registry_suite.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tandem::testing::make_adapter;
using tandem::testing::make_engine;
using tandem::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RegistryMembers : public ::testing::Test {
 protected:
  std::unique_ptr<Registry> connect() {
    SqliteStoreOptions options;
    options.clock = &clock_;
    auto store = SqliteStore::open((dir_.path() / "registry.db").string(), options);
    EXPECT_TRUE(store.ok()) << store.status().message();
    return std::make_unique<Registry>(std::move(*store));
  }
  Result<std::unique_ptr<RegistryMember>> join(const std::string& id, seconds ttl = seconds(30)) {
    return RegistryMember::join(connect(), make_engine(id),
                                [this] {
                                  const std::lock_guard lock(mutex_);
                                  ++changes_;
                                  changed_.notify_all();
                                },
                                {ttl, milliseconds(20)});
  }
  // Waits until it holds; checked after each change.
  bool comes_true(const std::function<bool()>& what) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(20), what);
  }
  std::vector<EngineEntry> engines() { return connect()->snapshot()->engines; }

  TempDir dir_;
  ManualClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int changes_ = 0;
};

TEST_F(RegistryMembers, AreThereUntilTheyLeave) {
  auto member = join("e1");
  ASSERT_TRUE(member.ok()) << member.status().message();
  EXPECT_THAT(engines(), ElementsAre(make_engine("e1")));
  EXPECT_EQ(join("e1").status().code(), StatusCode::already_exists);
  member->reset();
  EXPECT_THAT(engines(), IsEmpty());
}

TEST_F(RegistryMembers, KnowTheNewestVersionOfEachAdapter) {
  const auto registry = connect();
  ASSERT_TRUE(registry->add_adapter(make_adapter("sql", 1)).ok());
  const auto joined = join("e1");
  ASSERT_TRUE(joined.ok());
  const RegistryMember& member = **joined;
  ASSERT_TRUE(member.find_adapter("sql").has_value());
  EXPECT_EQ(member.find_adapter("sql")->version, 1);
  EXPECT_FALSE(member.find_adapter("law").has_value());

  ASSERT_TRUE(registry->add_adapter(make_adapter("sql", 2)).ok());
  EXPECT_TRUE(comes_true([&] { return member.find_adapter("sql")->version == 2; }));
  const auto older = member.find_adapter("sql@1");
  ASSERT_TRUE(older.has_value());
  EXPECT_EQ(older->version, 1);
  EXPECT_EQ(older->name, "sql@1");
  EXPECT_EQ(older->digest, make_adapter("sql", 1).digest);
  for (const char* name : {"sql@3", "sql@0", "sql@01", "sql@-1", "sql@", "sql@x", "@1", "law@1"}) {
    EXPECT_FALSE(member.find_adapter(name).has_value()) << name;
  }
  ASSERT_TRUE(registry->remove_adapter("sql", 2).ok());
  EXPECT_TRUE(comes_true([&] { return member.find_adapter("sql")->version == 1; }));
  ASSERT_TRUE(registry->remove_adapter("sql").ok());
  EXPECT_TRUE(comes_true([&] { return !member.find_adapter("sql").has_value(); }));
}

TEST_F(RegistryMembers, AreAwayWhileTheyDoNotServe) {
  const auto member = join("e1");
  ASSERT_TRUE(member.ok());
  const auto registry = connect();
  const auto wait_for = [&](std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(20);
    while (engines().size() != count && std::chrono::steady_clock::now() < deadline) {
    }
    return engines().size() == count;
  };
  (*member)->set_serving(false);
  EXPECT_TRUE(wait_for(0));
  ASSERT_TRUE(registry->add_adapter(make_adapter("sql", 1)).ok());
  EXPECT_TRUE(comes_true([&] { return (*member)->find_adapter("sql").has_value(); }));
  (*member)->set_serving(true);
  EXPECT_TRUE(wait_for(1));
}

TEST_F(RegistryMembers, RegisterAgainWhenTheirLeaseHasLapsed) {
  const auto member = join("e1", seconds(1));
  ASSERT_TRUE(member.ok());
  const auto registry = connect();
  const auto before = registry->snapshot();
  ASSERT_TRUE(before.ok());
  clock_.advance(seconds(5));
  EXPECT_THAT(registry->snapshot()->engines, IsEmpty());
  std::int64_t since = before->revision;
  bool is_back = false;
  const auto deadline = std::chrono::steady_clock::now() + seconds(20);
  while (!is_back && std::chrono::steady_clock::now() < deadline) {
    const auto news = registry->watch(since, milliseconds(500));
    ASSERT_TRUE(news.ok()) << news.status().message();
    since = news->revision;
    is_back = !news->engines.empty();
  }
  EXPECT_TRUE(is_back);
  EXPECT_THAT(engines(), ElementsAre(make_engine("e1")));
}

TEST_F(RegistryMembers, KnowTheOtherEngines) {
  const auto first = join("e1");
  ASSERT_TRUE(first.ok());
  auto second = join("e2");
  ASSERT_TRUE(second.ok());
  EXPECT_THAT((*second)->other_engines(), ElementsAre(make_engine("e1")));
  const auto wait_for = [&](std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(20);
    while ((*first)->other_engines().size() != count &&
           std::chrono::steady_clock::now() < deadline) {
    }
    return (*first)->other_engines().size() == count;
  };
  EXPECT_TRUE(wait_for(1));
  second->reset();
  EXPECT_TRUE(wait_for(0));
}

TEST(RegistryMembersOfEtcd, BeginWithoutItAndAreRegisteredWhenItAnswers) {
  const auto etcd = tandem::testing::EtcdCluster::start(1);
  if (etcd == nullptr) GTEST_SKIP() << "no etcd is installed (etcd-server)";
  const auto connect = [&] { return std::move(*open_registry(etcd->url())); };
  ASSERT_TRUE(connect()->add_adapter(make_adapter("sql", 1)).ok());
  etcd->kill_member(0);
  std::atomic<int> changes{0};
  const auto member = RegistryMember::join(connect(), make_engine("e1"), [&] { ++changes; },
                                           {seconds(10), milliseconds(20)});
  ASSERT_TRUE(member.ok()) << member.status().message();
  EXPECT_FALSE((*member)->has_read());
  EXPECT_FALSE((*member)->find_adapter("sql").has_value());
  etcd->start_member(0);
  const auto deadline = std::chrono::steady_clock::now() + seconds(60);
  while (changes == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE((*member)->has_read());
  EXPECT_TRUE((*member)->find_adapter("sql").has_value());
  EXPECT_THAT(connect()->snapshot()->engines, ElementsAre(make_engine("e1")));
}

}  // namespace
}  // namespace tandem
