#include "scheduler/cluster/membership/registry_engines.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "scheduler/cluster/registry/sqlite_store.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

EngineEntry engine(const std::string& id, const std::string& address) {
  EngineEntry entry;
  entry.id = id;
  entry.address = address;
  entry.model = "base";
  entry.capacity = {8, 1000, 1000};
  return entry;
}

AdapterEntry adapter(const std::string& name, std::int64_t rank, char digest) {
  AdapterEntry entry;
  entry.name = name;
  entry.rank = rank;
  entry.modules = {"q_proj"};
  entry.digest = std::string(32, digest);
  entry.dtype = "bf16";
  entry.bytes = 10;
  entry.source = "/adapters/" + name;
  entry.model = "/models/base";
  return entry;
}

// A store that can be cut off, like an etcd behind a failing network.
class FencedStore final : public RegistryStore {
 public:
  FencedStore(std::unique_ptr<RegistryStore> inner, const std::atomic<bool>& cut,
              std::atomic<int>& refused)
      : inner_(std::move(inner)), cut_(cut), refused_(refused) {}

  Result<StoreRead> read(std::string_view prefix) override {
    if (cut_) return nobody();
    return inner_->read(prefix);
  }
  Result<std::optional<StoredValue>> find(std::string_view key) override {
    return inner_->find(key);
  }
  Result<bool> write(const StoreWrite& write) override { return inner_->write(write); }
  Result<std::int64_t> grant_lease(seconds ttl) override { return inner_->grant_lease(ttl); }
  Status keep_lease(std::int64_t lease) override { return inner_->keep_lease(lease); }
  Status end_lease(std::int64_t lease) override { return inner_->end_lease(lease); }
  Result<StoreNews> watch(std::int64_t since, milliseconds patience) override {
    Result<StoreNews> news = inner_->watch(since, patience);
    if (cut_) return nobody();
    return news;
  }

 private:
  Status nobody() {
    ++refused_;
    return error(StatusCode::unavailable, "nobody answers");
  }

  const std::unique_ptr<RegistryStore> inner_;
  const std::atomic<bool>& cut_;
  std::atomic<int>& refused_;
};

class RegistryEnginesTest : public ::testing::Test {
 protected:
  std::unique_ptr<Registry> connect() {
    SqliteStoreOptions options;
    options.clock = &clock_;
    auto store = SqliteStore::open((dir_.path() / "registry.db").string(), options);
    EXPECT_TRUE(store.ok()) << store.status().message();
    return std::make_unique<Registry>(
        std::make_unique<FencedStore>(std::move(*store), cut_, refused_));
  }
  void watch(std::vector<HttpAddress> fixed = {}) {
    source_ = std::make_unique<RegistryEngines>(connect(), std::move(fixed),
                                                RegistryEnginesOptions{milliseconds(20), resolve_});
    source_->watch_adapters([this](std::vector<OfferedAdapter> adapters) {
      const std::lock_guard lock(mutex_);
      adapters_ = std::move(adapters);
      changed_.notify_all();
    });
    source_->watch([this](const std::vector<HttpAddress>& addresses) {
      const std::lock_guard lock(mutex_);
      told_.emplace();
      for (const HttpAddress& each : addresses) told_->push_back(each.text());
      ++times_;
      changed_.notify_all();
    });
  }
  // Waits until it holds; checked after each change.
  bool comes_true(const std::function<bool()>& what) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(20), what);
  }
  void wait_for_refusals(int count) const {
    const auto deadline = std::chrono::steady_clock::now() + seconds(20);
    while (refused_ < count && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    ASSERT_GE(refused_, count);
  }
  bool told(const std::vector<std::string>& addresses) {
    return comes_true([&] { return told_ == addresses; });
  }

  testing::TempDir dir_;
  ManualClock clock_;
  std::atomic<bool> cut_{false};
  std::atomic<int> refused_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::vector<std::string>> told_;
  std::vector<OfferedAdapter> adapters_;
  int times_ = 0;
  std::function<Result<HttpAddress>(const HttpAddress&)> resolve_;
  std::unique_ptr<RegistryEngines> source_;
};

TEST_F(RegistryEnginesTest, ComeAndGoWithTheirLeases) {
  const auto registry = connect();
  const auto first = registry->register_engine(engine("a", "http://h:1"), seconds(30));
  ASSERT_TRUE(first.ok()) << first.status().message();
  watch({{"fixed", 9}});
  EXPECT_TRUE(told({"http://fixed:9", "http://h:1"}));
  ASSERT_TRUE(registry->register_engine(engine("b", "http://h:2"), seconds(10)).ok());
  EXPECT_TRUE(told({"http://fixed:9", "http://h:1", "http://h:2"}));
  ASSERT_TRUE(registry->release(*first).ok());
  EXPECT_TRUE(told({"http://fixed:9", "http://h:2"}));
  clock_.advance(seconds(11));
  EXPECT_TRUE(told({"http://fixed:9"}));
}

TEST_F(RegistryEnginesTest, AreOneWhileAnEnginesOldLeaseLapses) {
  const auto registry = connect();
  ASSERT_TRUE(registry->register_engine(engine("old", "http://h:1"), seconds(10)).ok());
  ASSERT_TRUE(registry->register_engine(engine("new", "http://h:1"), seconds(60)).ok());
  ASSERT_TRUE(registry->register_engine(engine("odd", "https://h:2"), seconds(60)).ok());
  watch();
  EXPECT_TRUE(told({"http://h:1"}));
  clock_.advance(seconds(11));
  ASSERT_TRUE(registry->register_engine(engine("other", "http://h:3"), seconds(60)).ok());
  EXPECT_TRUE(told({"http://h:1", "http://h:3"}));
  EXPECT_EQ(times_, 2);
}

TEST_F(RegistryEnginesTest, StayAsTheyWereWhileTheRegistryIsAway) {
  const auto registry = connect();
  ASSERT_TRUE(registry->register_engine(engine("a", "http://h:1"), seconds(10)).ok());
  watch();
  ASSERT_TRUE(told({"http://h:1"}));
  cut_ = true;
  // The host's clock jumps, too: all leases lapse without a notification.
  clock_.advance(seconds(100'000));
  ASSERT_TRUE(registry->register_engine(engine("b", "http://h:2"), seconds(10)).ok());
  wait_for_refusals(2);
  EXPECT_EQ(times_, 1);
  cut_ = false;
  EXPECT_TRUE(told({"http://h:2"}));
}

TEST_F(RegistryEnginesTest, AreToldThoughTheRegistryAnswersLate) {
  const auto registry = connect();
  ASSERT_TRUE(registry->register_engine(engine("a", "http://h:1"), seconds(10)).ok());
  cut_ = true;
  watch({{"fixed", 9}});
  EXPECT_TRUE(told({"http://fixed:9"}));
  wait_for_refusals(1);
  cut_ = false;
  EXPECT_TRUE(told({"http://fixed:9", "http://h:1"}));
}

TEST_F(RegistryEnginesTest, AreToldByNumberAndLaterWhereANameHasNoneYet) {
  std::atomic<bool> known{false};
  std::atomic<int> failures{0};
  resolve_ = [&](const HttpAddress& address) -> Result<HttpAddress> {
    if (address.host == "late" && !known) {
      ++failures;
      return error(StatusCode::unavailable, "no such name");
    }
    return HttpAddress{"10.0.0.1", address.port};
  };
  const auto registry = connect();
  ASSERT_TRUE(registry->register_engine(engine("a", "http://h:1"), seconds(60)).ok());
  ASSERT_TRUE(registry->register_engine(engine("b", "http://same:1"), seconds(60)).ok());
  ASSERT_TRUE(registry->register_engine(engine("c", "http://late:2"), seconds(60)).ok());
  watch();
  EXPECT_TRUE(told({"http://10.0.0.1:1"}));
  known = true;  // and the registry has not changed
  EXPECT_TRUE(told({"http://10.0.0.1:1", "http://10.0.0.1:2"}));
  EXPECT_GT(failures, 0);
  source_.reset();  // it calls functions on this stack
}

TEST_F(RegistryEnginesTest, BringTheNewestVersionsOfTheRegistrysAdapters) {
  const auto registry = connect();
  ASSERT_TRUE(registry->add_adapter(adapter("sql", 8, 'a')).ok());
  watch();
  const std::string first(32, 'a');
  const std::string second(32, 'b');
  EXPECT_TRUE(comes_true([&] {
    return adapters_ == std::vector<OfferedAdapter>{{"sql", 8, 10, first}, {"sql@1", 8, 10, first}};
  }));
  ASSERT_TRUE(registry->add_adapter(adapter("sql", 16, 'b')).ok());
  EXPECT_TRUE(comes_true([&] {
    return adapters_ == std::vector<OfferedAdapter>{{"sql", 16, 10, second},
                                                    {"sql@1", 8, 10, first},
                                                    {"sql@2", 16, 10, second}};
  }));
  ASSERT_TRUE(registry->remove_adapter("sql").ok());
  EXPECT_TRUE(comes_true([&] { return adapters_.empty(); }));
}

}  // namespace
}  // namespace tandem
