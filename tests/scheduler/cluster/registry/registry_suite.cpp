#include "tests/scheduler/cluster/registry/registry_suite.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/test_seed.h"

namespace tandem::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr seconds kTtl{1};
constexpr seconds kRealTtl{3};  // long enough for slow disks
constexpr seconds kLongTtl{60};

std::vector<std::int64_t> versions_of(Registry& registry, const std::string& name) {
  const auto entries = registry.adapter_versions(name);
  EXPECT_TRUE(entries.ok()) << entries.status().message();
  std::vector<std::int64_t> versions;
  if (entries) {
    for (const AdapterEntry& entry : *entries) versions.push_back(entry.version);
  }
  return versions;
}

AddedAdapter add(Registry& registry, const AdapterEntry& entry) {
  auto added = registry.add_adapter(entry);
  EXPECT_TRUE(added.ok()) << added.status().message();
  return added ? *added : AddedAdapter{};
}

RegistrySnapshot snapshot(Registry& registry) {
  auto found = registry.snapshot();
  EXPECT_TRUE(found.ok()) << found.status().message();
  return found ? *found : RegistrySnapshot{};
}

// Follows changes until they are `enough`, or until a time-out.
template <typename Enough>
RegistryNews follow(Registry& registry, std::int64_t since, const Enough& enough) {
  const auto deadline = std::chrono::steady_clock::now() + seconds(20);
  RegistryNews news;
  do {
    auto more = registry.watch(since, milliseconds(500));
    EXPECT_TRUE(more.ok()) << more.status().message();
    if (!more) break;
    since = more->revision;
    news = std::move(*more);
  } while (!news.lost && !enough(news) && std::chrono::steady_clock::now() < deadline);
  return news;
}

void gives_versions_in_their_order(const RegistryBench& bench) {
  const auto registry = bench.connect();
  for (std::uint64_t content = 1; content <= 12; ++content) {
    const AddedAdapter added = add(*registry, make_adapter("sql", content));
    EXPECT_TRUE(added.is_new);
    EXPECT_EQ(added.entry.version, static_cast<std::int64_t>(content));
  }
  EXPECT_THAT(versions_of(*registry, "sql"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  const auto newest = registry->find_adapter("sql");
  ASSERT_TRUE(newest.ok()) << newest.status().message();
  AdapterEntry expected = make_adapter("sql", 12);
  expected.version = 12;
  EXPECT_EQ(*newest, expected);
  // A client that began with an old version still finds it.
  const auto old = registry->find_adapter("sql", 2);
  ASSERT_TRUE(old.ok()) << old.status().message();
  EXPECT_EQ(old->digest, make_adapter("sql", 2).digest);
}

void content_that_is_there_is_no_new_version(const RegistryBench& bench) {
  const auto registry = bench.connect();
  const AdapterEntry entry = make_adapter("sql", 7);
  add(*registry, entry);
  const RegistrySnapshot before = snapshot(*registry);
  AdapterEntry later = entry;
  later.created_unix += 100;
  const AddedAdapter same = add(*registry, later);
  EXPECT_FALSE(same.is_new);
  EXPECT_EQ(same.entry, before.adapters.front());

  later.source = "/elsewhere/sql";
  const AddedAdapter moved = add(*registry, later);
  EXPECT_FALSE(moved.is_new);
  EXPECT_EQ(moved.entry.version, 1);
  EXPECT_EQ(moved.entry.created_unix, entry.created_unix);
  const auto found = registry->find_adapter("sql");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->source, "/elsewhere/sql");
  // Adding an older content again makes a new version, because the newest version is served.
  add(*registry, make_adapter("sql", 8));
  EXPECT_EQ(add(*registry, entry).entry.version, 3);
}

void numbers_of_removed_versions_are_not_given_again(const RegistryBench& bench) {
  const auto registry = bench.connect();
  add(*registry, make_adapter("sql", 1));
  add(*registry, make_adapter("sql", 2));
  const auto one = registry->remove_adapter("sql", 2);
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(*one, 1U);
  EXPECT_EQ(add(*registry, make_adapter("sql", 2)).entry.version, 3);
  const auto all = registry->remove_adapter("sql");
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(*all, 2U);
  EXPECT_THAT(versions_of(*registry, "sql"), IsEmpty());
  EXPECT_EQ(add(*registry, make_adapter("sql", 1)).entry.version, 4);
}

void says_what_is_not_there(const RegistryBench& bench) {
  const auto registry = bench.connect();
  const Status nothing = registry->find_adapter("sql").status();
  EXPECT_EQ(nothing.code(), StatusCode::not_found);
  EXPECT_THAT(nothing.message(), HasSubstr("no adapter 'sql'"));
  EXPECT_EQ(registry->remove_adapter("sql").status().code(), StatusCode::not_found);
  add(*registry, make_adapter("sql", 1));
  add(*registry, make_adapter("sql", 2));
  const Status missing = registry->find_adapter("sql", 5).status();
  EXPECT_EQ(missing.code(), StatusCode::not_found);
  EXPECT_THAT(missing.message(), HasSubstr("'sql' has no version 5; there are 1, 2"));
  EXPECT_EQ(registry->remove_adapter("sql", 5).status().code(), StatusCode::not_found);
  EXPECT_EQ(registry->find_adapter("../sql@").status().code(), StatusCode::invalid_argument);
  AdapterEntry bad = make_adapter("sql", 3);
  bad.digest = "none";
  EXPECT_EQ(registry->add_adapter(bad).status().code(), StatusCode::invalid_argument);
}

void names_that_begin_alike_are_apart(const RegistryBench& bench) {
  const auto registry = bench.connect();
  const std::vector<std::string> names = {"a", "a-b", "a/b", "a:1", "ab"};
  for (const std::string& name : names) add(*registry, make_adapter(name, 1));
  for (const std::string& name : names) {
    EXPECT_EQ(add(*registry, make_adapter(name, 2)).entry.version, 2) << name;
  }
  ASSERT_TRUE(registry->remove_adapter("a").ok());
  EXPECT_THAT(versions_of(*registry, "a"), IsEmpty());
  EXPECT_THAT(versions_of(*registry, "a/b"), ElementsAre(1, 2));
  const RegistrySnapshot all = snapshot(*registry);
  ASSERT_EQ(all.adapters.size(), 8U);
  EXPECT_TRUE(std::ranges::is_sorted(all.adapters, {}, [](const AdapterEntry& entry) {
    return std::pair(entry.name, entry.version);
  }));
}

void writers_at_once_lose_nothing(const RegistryBench& bench) {
  constexpr std::uint64_t kWriters = 4;
  constexpr std::uint64_t kEach = 6;
  std::vector<std::thread> writers;
  for (std::uint64_t writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&bench, writer] {
      const auto registry = bench.connect();
      for (std::uint64_t i = 0; i < kEach; ++i) {
        EXPECT_TRUE(add(*registry, make_adapter("hot", writer * kEach + i)).is_new);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  const auto registry = bench.connect();
  const auto entries = registry->adapter_versions("hot");
  ASSERT_TRUE(entries.ok());
  std::vector<std::string> digests;
  std::int64_t version = 0;
  for (const AdapterEntry& entry : *entries) {
    EXPECT_EQ(entry.version, ++version);
    digests.push_back(entry.digest);
  }
  std::ranges::sort(digests);
  EXPECT_EQ(digests.size(), kWriters * kEach);
  EXPECT_EQ(std::ranges::adjacent_find(digests), digests.end());
}

void an_engine_lives_as_long_as_its_lease(const RegistryBench& bench) {
  const auto registry = bench.connect();
  const EngineEntry engine = make_engine("e1");
  const auto lease = registry->register_engine(engine, bench.turns_clock ? kTtl : kRealTtl);
  ASSERT_TRUE(lease.ok()) << lease.status().message();
  const RegistrySnapshot there = snapshot(*registry);
  EXPECT_THAT(there.engines, ElementsAre(engine));
  if (bench.turns_clock) {
    for (int i = 0; i < 5; ++i) {
      bench.pass_time(milliseconds(999));
      const Status kept = registry->keep_alive(*lease);
      EXPECT_TRUE(kept.ok()) << kept.message();
    }
    EXPECT_EQ(snapshot(*registry).engines.size(), 1U);
  } else {
    EXPECT_TRUE(registry->keep_alive(*lease).ok());
  }
  bench.pass_time(milliseconds(1000));
  const auto watcher = bench.connect();
  const RegistryNews news = follow(*watcher, there.revision, [](const RegistryNews& seen) {
    return !seen.gone_engines.empty();
  });
  EXPECT_THAT(news.gone_engines, ElementsAre("e1"));
  EXPECT_THAT(snapshot(*registry).engines, IsEmpty());
  EXPECT_EQ(registry->keep_alive(*lease).code(), StatusCode::not_found);
  EXPECT_EQ(registry->update_engine(*lease, engine).code(), StatusCode::not_found);
  EXPECT_TRUE(registry->release(*lease).ok());
}

void a_released_engine_is_gone_at_once(const RegistryBench& bench) {
  const auto registry = bench.connect();
  const auto one = registry->register_engine(make_engine("e1"), kLongTtl);
  const auto two = registry->register_engine(make_engine("e2"), kLongTtl);
  ASSERT_TRUE(one.ok() && two.ok());
  const RegistrySnapshot both = snapshot(*registry);
  ASSERT_TRUE(registry->release(*one).ok());
  EXPECT_THAT(snapshot(*registry).engines, ElementsAre(make_engine("e2")));
  const RegistryNews news = follow(*registry, both.revision, [](const RegistryNews& seen) {
    return !seen.gone_engines.empty();
  });
  EXPECT_THAT(news.gone_engines, ElementsAre("e1"));
  EXPECT_TRUE(registry->register_engine(make_engine("e1"), kLongTtl).ok());
}

void two_engines_of_one_id_are_refused(const RegistryBench& bench) {
  const auto registry = bench.connect();
  const auto first = registry->register_engine(make_engine("e1"), kLongTtl);
  ASSERT_TRUE(first.ok());
  EngineEntry impostor = make_engine("e1");
  impostor.address = "http://127.0.0.1:1";
  const Status refused = bench.connect()->register_engine(impostor, kLongTtl).status();
  EXPECT_EQ(refused.code(), StatusCode::already_exists);
  EXPECT_THAT(refused.message(), HasSubstr("'e1' is running"));
  EXPECT_THAT(snapshot(*registry).engines, ElementsAre(make_engine("e1")));
  EXPECT_TRUE(registry->keep_alive(*first).ok());
}

void an_engine_says_something_else_of_itself(const RegistryBench& bench) {
  const auto registry = bench.connect();
  EngineEntry engine = make_engine("e1");
  const auto lease = registry->register_engine(engine, kLongTtl);
  ASSERT_TRUE(lease.ok());
  engine.capacity.kv_tokens = 5;
  const Status updated = registry->update_engine(*lease, engine);
  EXPECT_TRUE(updated.ok()) << updated.message();
  EXPECT_THAT(snapshot(*registry).engines, ElementsAre(engine));
  EXPECT_EQ(registry->update_engine(*lease, make_engine("e2")).code(),
            StatusCode::invalid_argument);
  // The engine is still bound to its lease.
  ASSERT_TRUE(registry->release(*lease).ok());
  EXPECT_THAT(snapshot(*registry).engines, IsEmpty());
  EXPECT_EQ(registry->update_engine(*lease, engine).code(), StatusCode::not_found);
}

void a_watch_tells_what_others_change(const RegistryBench& bench) {
  const auto registry = bench.connect();
  add(*registry, make_adapter("old", 1));
  const RegistrySnapshot before = snapshot(*registry);
  const auto quiet = registry->watch(before.revision, milliseconds(0));
  ASSERT_TRUE(quiet.ok()) << quiet.status().message();
  EXPECT_TRUE(quiet->adapters.empty() && quiet->engines.empty() && !quiet->lost);

  std::thread other([&bench] {
    const auto writer = bench.connect();
    add(*writer, make_adapter("new", 1));
  });
  const RegistryNews news = follow(*registry, quiet->revision,
                                   [](const RegistryNews& seen) { return !seen.adapters.empty(); });
  other.join();
  ASSERT_EQ(news.adapters.size(), 1U);
  EXPECT_EQ(news.adapters.front().name, "new");

  ASSERT_TRUE(registry->remove_adapter("old").ok());
  const RegistryNews removed = follow(*registry, news.revision, [](const RegistryNews& seen) {
    return !seen.removed_adapters.empty();
  });
  EXPECT_THAT(removed.removed_adapters, ElementsAre(AdapterVersion{"old", 1}));
  EXPECT_THAT(removed.adapters, IsEmpty());
}

void a_revision_that_never_was_is_lost(const RegistryBench& bench) {
  const auto registry = bench.connect();
  const auto news = registry->watch(snapshot(*registry).revision + 1000, milliseconds(0));
  ASSERT_TRUE(news.ok()) << news.status().message();
  EXPECT_TRUE(news->lost);
}

// The state seen by a client that took a snapshot and then followed the changes.
class Follower {
 public:
  explicit Follower(const RegistrySnapshot& begin) : revision_(begin.revision) {
    for (const AdapterEntry& entry : begin.adapters) adapters_[{entry.name, entry.version}] = entry;
    for (const EngineEntry& entry : begin.engines) engines_[entry.id] = entry;
  }
  void take(const RegistryNews& news) {
    ASSERT_FALSE(news.lost);
    for (const AdapterEntry& entry : news.adapters) adapters_[{entry.name, entry.version}] = entry;
    for (const auto& [name, version] : news.removed_adapters) adapters_.erase({name, version});
    for (const EngineEntry& entry : news.engines) engines_[entry.id] = entry;
    for (const std::string& id : news.gone_engines) engines_.erase(id);
    revision_ = news.revision;
  }
  bool sees(const RegistrySnapshot& end) const {
    const Follower same(end);
    return same.adapters_ == adapters_ && same.engines_ == engines_;
  }
  std::int64_t revision() const { return revision_; }

 private:
  std::map<std::pair<std::string, std::int64_t>, AdapterEntry> adapters_;
  std::map<std::string, EngineEntry> engines_;
  std::int64_t revision_;
};

void who_follows_the_news_sees_what_is_there(const RegistryBench& bench) {
  std::mt19937_64 random(test_seed());
  const auto below = [&](std::uint64_t end) {
    return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(random);
  };
  const auto registry = bench.connect();
  const auto watcher = bench.connect();
  Follower follower(snapshot(*watcher));
  std::map<std::string, EngineLease> leases;
  for (int step = 0; step < 60; ++step) {
    const std::string name = fmt::format("n{}", below(4));
    switch (below(5)) {
      case 0:
      case 1:
        add(*registry, make_adapter(name, below(6)));
        break;
      case 2: {
        const Status status =
            registry->remove_adapter(name, static_cast<std::int64_t>(below(3))).status();
        EXPECT_TRUE(status.ok() || status.code() == StatusCode::not_found) << status.message();
        break;
      }
      case 3: {
        const auto lease = registry->register_engine(make_engine(name), kLongTtl);
        EXPECT_EQ(lease.ok(), !leases.contains(name)) << lease.status().message();
        if (lease) leases[name] = *lease;
        break;
      }
      default:
        if (leases.contains(name)) {
          EXPECT_TRUE(registry->release(leases[name]).ok());
          leases.erase(name);
        }
    }
    if (step % 20 != 19) continue;
    const auto news = watcher->watch(follower.revision(), milliseconds(0));
    ASSERT_TRUE(news.ok()) << news.status().message();
    follower.take(*news);
  }
  const RegistrySnapshot end = snapshot(*registry);
  follow(*watcher, follower.revision(), [&](const RegistryNews& news) {
    follower.take(news);
    return follower.sees(end);
  });
  EXPECT_TRUE(follower.sees(end));
}

constexpr RegistryCase kCases[] = {
    {"GivesVersionsInTheirOrder", gives_versions_in_their_order},
    {"ContentThatIsThereIsNoNewVersion", content_that_is_there_is_no_new_version},
    {"NumbersOfRemovedVersionsAreNotGivenAgain", numbers_of_removed_versions_are_not_given_again},
    {"SaysWhatIsNotThere", says_what_is_not_there},
    {"NamesThatBeginAlikeAreApart", names_that_begin_alike_are_apart},
    {"WritersAtOnceLoseNothing", writers_at_once_lose_nothing},
    {"AnEngineLivesAsLongAsItsLease", an_engine_lives_as_long_as_its_lease},
    {"AReleasedEngineIsGoneAtOnce", a_released_engine_is_gone_at_once},
    {"TwoEnginesOfOneIdAreRefused", two_engines_of_one_id_are_refused},
    {"AnEngineSaysSomethingElseOfItself", an_engine_says_something_else_of_itself},
    {"AWatchTellsWhatOthersChange", a_watch_tells_what_others_change},
    {"ARevisionThatNeverWasIsLost", a_revision_that_never_was_is_lost},
    {"WhoFollowsTheNewsSeesWhatIsThere", who_follows_the_news_sees_what_is_there},
};

}  // namespace

std::span<const RegistryCase> registry_cases() {
  return kCases;
}

AdapterEntry make_adapter(const std::string& name, std::uint64_t content) {
  AdapterEntry entry;
  entry.name = name;
  entry.rank = 16;
  entry.modules = {"q_proj", "v_proj"};
  entry.digest = fmt::format("{:032x}", content);
  entry.dtype = "bf16";
  entry.bytes = 4096;
  entry.source = "/adapters/" + name;
  entry.model = "/models/base";
  entry.owner = "ann";
  entry.created_unix = 1'700'000'000;
  return entry;
}

EngineEntry make_engine(const std::string& id) {
  return {id, "http://127.0.0.1:8000", "base", {256, 131072, 1 << 30}};
}

}  // namespace tandem::testing
