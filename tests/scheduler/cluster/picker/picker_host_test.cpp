// The picker in front of stub engines, whose statistics come over real sockets.
#include "scheduler/cluster/picker/picker_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/log/log.h"
#include "scheduler/cluster/picker/endpoint.h"
#include "scheduler/cluster/picker/picker_front.h"
#include "tests/scheduler/cluster/router/stub_engine.h"

namespace tandem {
namespace {

// A source whose changes the test sends.
class ToldSource final : public EngineSource {
 public:
  void watch(Changed changed) override { changed_ = std::move(changed); }
  void watch_adapters(const AdaptersChanged& changed) override { adapters_changed_ = changed; }
  void tell(const std::vector<const StubEngine*>& engines) const {
    std::vector<HttpAddress> addresses;
    for (const StubEngine* engine : engines)
      addresses.push_back(*HttpAddress::parse(engine->url()));
    changed_(std::move(addresses));
  }
  void offer(std::vector<OfferedAdapter> adapters) const { adapters_changed_(std::move(adapters)); }

 private:
  Changed changed_;
  AdaptersChanged adapters_changed_;
};

class PickerHostTest : public ::testing::Test {
 protected:
  PickerHostTest() {
    log::set_level(log::Level::off);
    options_.watch.retry = std::chrono::milliseconds(20);
    options_.policy = "affinity";
  }
  ~PickerHostTest() override { log::set_level(log::Level::info); }

  void start(std::vector<StubEngine*> engines) {
    std::vector<HttpAddress> addresses;
    for (const StubEngine* engine : engines)
      addresses.push_back(*HttpAddress::parse(engine->url()));
    start(std::make_unique<FixedEngines>(std::move(addresses)));
  }
  void start(std::unique_ptr<EngineSource> source) {
    host_ = *PickerHost::create(options_, std::move(source));
    host_->start([this](bool ready) { told_ready_ = ready; });
  }
  bool all_up(std::size_t count) {
    return eventually([&] {
      std::size_t up = 0;
      host_->look([&](const Picker& picker) {
        for (const EngineState& engine : picker.cluster().engines()) up += engine.up ? 1 : 0;
      });
      return up == count;
    });
  }
  Pick ask(const std::string& model) {
    PickRequest request;
    request.headers[":path"] = "/v1/completions";
    request.body = R"({"model":")" + model + R"(","prompt":"x"})";
    return host_->pick(request);
  }
  static std::string endpoint(const StubEngine& engine) {
    return "127.0.0.1:" + std::to_string(engine.port());
  }

  PickerOptions options_;
  std::atomic<bool> told_ready_{false};
  std::unique_ptr<PickerHost> host_;
};

TEST_F(PickerHostTest, KnowsWhereAdaptersAreAndWhichEnginesLive) {
  StubEngine first("one", {{.name = "law"}});
  StubEngine second("two", {{.name = "law", .tier = "host"}, {.name = "art"}});
  start({&first, &second});
  EXPECT_TRUE(all_up(2));
  EXPECT_TRUE(eventually([&] { return told_ready_.load(); }));
  EXPECT_TRUE(host_->ready());
  EXPECT_EQ(ask("art").endpoints, endpoint(second));
  EXPECT_EQ(ask("law").endpoints, endpoint(first) + "," + endpoint(second));
  EXPECT_EQ(ask("none").refused->status, 404);

  PickerFront front(*host_);
  HttpRequest request;
  request.method = "GET";
  request.path = "/ready";
  EXPECT_EQ(front.handle(request).status, 200);
  request.path = "/metrics";
  EXPECT_NE(front.handle(request).body.find("tandem_picker_refusals_total{status=\"404\"} 1"),
            std::string::npos);
  request.path = "/v1/stats";
  EXPECT_EQ(nlohmann::json::parse(front.handle(request).body)["engines"].size(), 2U);
  request.path = "/v1/completions";
  EXPECT_EQ(front.screen(request)->status, 404);
  request.method = "POST";
  request.path = "/v1/stats";
  const auto wrong = front.screen(request);
  EXPECT_EQ(wrong->status, 405);
  EXPECT_THAT(wrong->headers, testing::Contains(testing::Pair("Allow", "GET, HEAD")));
  request.method = "GET";

  first.kill();
  EXPECT_TRUE(all_up(1));
  EXPECT_EQ(ask("law").endpoints, endpoint(second));
  second.kill();
  EXPECT_TRUE(eventually([&] { return !told_ready_.load(); }));
  EXPECT_EQ(ask("law").refused->status, 503);
  request.path = "/ready";
  EXPECT_EQ(front.handle(request).status, 503);
}

TEST_F(PickerHostTest, TellsOfItsEnginesToWhoHasTheKey) {
  options_.api_key = "secret";
  StubEngine engine("one");
  start({&engine});
  PickerFront front(*host_);
  PickerFront open_metrics(*host_, true);
  const auto status = [](PickerFront& asked, const std::string& path, const std::string& key) {
    HttpRequest request;
    request.method = "GET";
    request.path = path;
    if (!key.empty()) request.headers["authorization"] = "Bearer " + key;
    const auto refused = asked.screen(request);
    return refused ? refused->status : 200;
  };
  for (const char* path : {"/v1/stats", "/metrics"}) {
    EXPECT_EQ(status(front, path, ""), 401) << path;
    EXPECT_EQ(status(front, path, "other"), 401) << path;
    EXPECT_EQ(status(front, path, "secret"), 200) << path;
  }
  for (const char* path : {"/health", "/ready"}) EXPECT_EQ(status(front, path, ""), 200) << path;
  EXPECT_EQ(status(open_metrics, "/metrics", ""), 200);
  EXPECT_EQ(status(open_metrics, "/v1/stats", ""), 401);
}

TEST_F(PickerHostTest, FollowsEnginesThatComeAndGoAndWhatTheyCanLoad) {
  StubEngine first("one");
  StubEngine second("two");
  auto told = std::make_unique<ToldSource>();
  const ToldSource& source = *told;
  start(std::move(told));
  EXPECT_EQ(ask("base").refused->status, 503);
  source.tell({&first});
  EXPECT_TRUE(all_up(1));
  EXPECT_EQ(ask("law").refused->status, 404);
  source.offer({{"law", 8, 1000}});
  EXPECT_TRUE(eventually([&] { return ask("law").endpoints == endpoint(first); }));
  // An engine that is no longer listed stays as long as it reports.
  source.tell({&second});
  EXPECT_TRUE(all_up(2));
  EXPECT_TRUE(eventually([&] { return !ask("base").refused; }));
  first.kill();
  EXPECT_TRUE(eventually([&] {
    bool gone = false;
    host_->look([&](const Picker& picker) { gone = picker.cluster().engines()[0].gone; });
    return gone;
  }));
  EXPECT_EQ(ask("law").endpoints, endpoint(second));
  source.offer({});
  EXPECT_TRUE(eventually([&] { return ask("law").refused.has_value(); }));
}

// For the thread sanitizer: several threads decide, end requests and report at once.
TEST_F(PickerHostTest, DecidesForManyAtOnce) {
  StubEngine first("one");
  StubEngine second("two");
  options_.policy = "tandem";
  start({&first, &second});
  ASSERT_TRUE(all_up(2));
  std::atomic<int> refused{0};
  std::vector<std::thread> askers;
  for (int t = 0; t < 4; ++t) {
    askers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const Pick pick = ask("base");
        if (pick.refused) ++refused;
        host_->served(pick.id, endpoint(i % 2 == 0 ? first : second));
        host_->over(pick.id, i % 3 != 0);
      }
    });
  }
  for (std::thread& asker : askers) asker.join();
  // If both engines were doubted, a request is refused; their next reports end that.
  EXPECT_TRUE(eventually([&] { return !ask("base").refused; }));
  host_->stop();
}

TEST_F(PickerHostTest, RefusesAPolicyThatThereIsNot) {
  options_.policy = "none";
  EXPECT_FALSE(
      PickerHost::create(options_, std::make_unique<FixedEngines>(std::vector<HttpAddress>())));
}

TEST(Endpoint, IsWrittenInNumbers) {
  const auto numeric = numeric_address({"localhost", 80});
  ASSERT_TRUE(numeric) << numeric.status().message();
  EXPECT_EQ(endpoint_text(*numeric), "127.0.0.1:80");
  EXPECT_EQ(endpoint_text(*numeric_address({"::1", 81})), "[::1]:81");
  const auto nobody = numeric_address({"no-such-host.invalid", 80});
  ASSERT_FALSE(nobody);
  EXPECT_NE(nobody.status().message().find("no-such-host.invalid"), std::string::npos);
}

}  // namespace
}  // namespace tandem
