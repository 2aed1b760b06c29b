#include "base/dashboard/dashboard_feed.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kPatience{60};  // only reached if something is broken

// A viewer that pulls when it is woken, as a connection does.
class Viewer {
 public:
  explicit Viewer(DashboardFeed& feed) : source_(feed.watch()) {
    if (source_ == nullptr) return;
    source_->on_ready([this] {
      const std::lock_guard lock(mutex_);
      woken_ = true;
      changed_.notify_all();
    });
  }
  bool let_in() const { return source_ != nullptr; }
  // The next event; null if none came.
  json next() {
    std::string text;
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      EXPECT_EQ(source_->pull(text), BodySource::Pull::wait);
      if (!text.empty()) break;
      std::unique_lock lock(mutex_);
      if (!changed_.wait_until(lock, until, [this] { return woken_; })) return {};
      woken_ = false;
    }
    EXPECT_TRUE(text.starts_with("data: ") && text.ends_with("\n\n")) << text;
    return json::parse(text.substr(6));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  std::unique_ptr<BodySource> source_;  // last: ends before the objects that it wakes
};

DashboardFeedOptions quick(std::chrono::milliseconds look_every = std::chrono::milliseconds(1)) {
  return {.look_every = look_every, .most_viewers = 2};
}

// The world that the feed shows; the test changes it.
struct World {
  std::mutex mutex;
  std::condition_variable looked;
  std::vector<DashboardRow> rows;
  std::atomic<int> looks{0};

  DashboardFeed::Look look() {
    return [this] {
      const std::lock_guard lock(mutex);
      looked.notify_all();
      return DashboardPicture{"\"look\":" + std::to_string(++looks), {{"things", rows}}};
    };
  }
  void set(std::vector<DashboardRow> to) {
    const std::lock_guard lock(mutex);
    rows = std::move(to);
  }
};

TEST(DashboardFeed, TellsAllOfItFirstAndThenWhatChanges) {
  World world;
  world.set({{"\"a\"", R"({"name":"a","n":1})"}, {"\"b\"", R"({"name":"b","n":1})"}});
  // A viewer that is away for eight pictures gets everything again; this reader may be away that
  // long.
  DashboardFeed feed(world.look(), quick(std::chrono::milliseconds(100)));
  Viewer viewer(feed);
  const json first = viewer.next();
  EXPECT_EQ(first["tables"]["things"]["whole"], true);
  EXPECT_EQ(first["tables"]["things"]["rows"].size(), 2U);
  world.set({{"\"b\"", R"({"name":"b","n":2})"}, {"\"c\"", R"({"name":"c","n":1})"}});
  json changes;
  do {
    changes = viewer.next();
    ASSERT_FALSE(changes.is_null());
  } while (changes["tables"]["things"]["rows"].empty());
  EXPECT_EQ(changes["tables"]["things"]["whole"], false);
  EXPECT_EQ(changes["tables"]["things"]["rows"],
            json::parse(R"([{"name":"b","n":2},{"name":"c","n":1}])"));
  EXPECT_EQ(changes["tables"]["things"]["removed"], json::parse(R"(["a"])"));
  const json after = viewer.next();
  EXPECT_TRUE(after["tables"]["things"]["rows"].empty());
  EXPECT_TRUE(after["tables"]["things"]["removed"].empty());
  EXPECT_GT(after["look"], changes["look"]);
}

TEST(DashboardFeed, TellsAllOfItAnewToWhoHasMissedTooMuch) {
  World world;
  world.set({{"\"a\"", R"({"name":"a"})"}});
  DashboardFeed feed(world.look(), quick());
  Viewer slow(feed);
  Viewer quick_one(feed);
  EXPECT_EQ(slow.next()["tables"]["things"]["whole"], true);
  for (int i = 0; i < 12; ++i) ASSERT_FALSE(quick_one.next().is_null());
  EXPECT_EQ(slow.next()["tables"]["things"]["whole"], true);
}

TEST(DashboardFeed, LooksAtNothingWhileNobodyLooks) {
  World world;
  DashboardFeed feed(world.look(), quick());
  EXPECT_EQ(world.looks, 0);
  {
    Viewer viewer(feed);
    ASSERT_FALSE(viewer.next().is_null());
  }
  // The picture in progress is the last one.
  std::unique_lock lock(world.mutex);
  const int seen = world.looks;
  EXPECT_FALSE(world.looked.wait_for(lock, std::chrono::milliseconds(30),
                                     [&] { return world.looks > seen + 1; }));
}

TEST(DashboardFeed, LetsInSoManyViewersAndNoMore) {
  World world;
  DashboardFeed feed(world.look(), quick());
  const Viewer one(feed);
  std::optional<Viewer> two(std::in_place, feed);
  EXPECT_FALSE(Viewer(feed).let_in());
  two.reset();
  EXPECT_TRUE(Viewer(feed).let_in());
}

TEST(DashboardFeed, SkipsAPictureThatCannotBeMade) {
  std::atomic<int> looks{0};
  DashboardFeed feed(
      [&]() -> DashboardPicture {
        if (++looks < 3) throw std::runtime_error("not now");
        return {"\"x\":1", {}};
      },
      quick());
  Viewer viewer(feed);
  EXPECT_EQ(viewer.next()["x"], 1);
  EXPECT_GE(looks, 3);
}

}  // namespace
}  // namespace tandem
