#include "scheduler/cluster/members/cluster.h"

#include <gtest/gtest.h>

#include "scheduler/cluster/members/engine_search.h"
#include "scheduler/cluster/members/scale_hint.h"

namespace tandem {
namespace {

constexpr Duration kLater = std::chrono::milliseconds(50);

EngineReport report_of(const std::string& id, std::vector<AdapterReport> adapters = {}) {
  EngineReport report;
  report.id = id;
  report.model = "base";
  report.view.max_requests = 4;
  report.view.kv_tokens = report.view.kv_free_tokens = 1000;
  report.view.costs.step_s = 0.01;
  report.adapters = std::move(adapters);
  return report;
}

class ClusterTest : public ::testing::Test {
 protected:
  ClusterTest() : cluster_(make_policy("most_idle", {}).value()) {
    for (int i = 0; i < 2; ++i) cluster_.add({"h", i + 1});
  }
  Status report(int engine, EngineReport report, bool first = true) {
    return cluster_.report(EngineIndex(engine), std::move(report), first, now_);
  }
  int choose(const std::string& model, int avoid = -1) {
    Wanted wanted{.model = model, .prompt_tokens = 10, .expected_tokens = 10};
    wanted.avoid = EngineIndex(avoid);
    const Choice choice = cluster_.choose(wanted, now_);
    return choice.kind == Choice::Kind::engine ? choice.engine.value()
                                               : -1 - static_cast<int>(choice.kind);
  }
  SentId send(int engine, const std::string& model) {
    return cluster_.sent(EngineIndex(engine),
                         {.model = model, .prompt_tokens = 10, .expected_tokens = 10}, now_);
  }
  static constexpr int kNobody = -1 - static_cast<int>(Choice::Kind::nobody);
  static constexpr int kUnknown = -1 - static_cast<int>(Choice::Kind::unknown);

  Cluster cluster_;
  TimePoint now_ = TimePoint() + std::chrono::hours(1);
};

TEST_F(ClusterTest, CountsWhatItSentUntilAReportMustKnowOfIt) {
  ASSERT_TRUE(report(0, report_of("a")));
  ASSERT_TRUE(report(1, report_of("b")));
  EXPECT_EQ(choose("base"), 0);
  (void)send(0, "base");
  EXPECT_EQ(choose("base"), 1);
  const EngineView& view = cluster_.view(EngineIndex(0));
  EXPECT_EQ(view.waiting.requests, 1);
  EXPECT_EQ(view.kv_free_tokens, 980);
  ASSERT_TRUE(report(0, report_of("a"), false));  // too early to include the request
  EXPECT_EQ(view.waiting.requests, 1);
  now_ += kLater;
  ASSERT_TRUE(report(0, report_of("a"), false));
  EXPECT_EQ(view.waiting.requests, 0);
  EXPECT_EQ(cluster_.engines()[0].sent, 1);
}

TEST_F(ClusterTest, TakesBackWhatEndedBeforeItWasReported) {
  ASSERT_TRUE(report(0, report_of("a")));
  const SentId id = send(0, "base");
  cluster_.ended(EngineIndex(0), id);
  EXPECT_EQ(cluster_.view(EngineIndex(0)).waiting.requests, 0);
  EXPECT_EQ(cluster_.view(EngineIndex(0)).kv_free_tokens, 1000);
  EXPECT_EQ(cluster_.engines()[0].sent, 0);
}

TEST_F(ClusterTest, SendsRequestsForSeveralAdaptersToEnginesThatHaveAllOfThem) {
  const AdapterReport x = {.name = "x", .rank = 16, .bytes = 9};
  const AdapterReport y = {.name = "y", .rank = 8, .bytes = 5};
  const AdapterReport z = {.name = "z", .rank = 8, .bytes = 5};
  ASSERT_TRUE(report(0, report_of("a", {x, z})));
  ASSERT_TRUE(report(1, report_of("b", {y, x})));
  EXPECT_EQ(choose("x+y"), 1);
  EXPECT_EQ(choose("y+x"), 1);
  EXPECT_EQ(choose("z+x"), 0);
  EXPECT_EQ(choose("y+z"), kNobody) << "no engine has both";
  for (const char* name : {"x+nothing", "x+", "+x", "x++y", "+", "x+x+x+x+x+x+x+x+x"}) {
    EXPECT_EQ(choose(name), kUnknown) << name;
  }
  Wanted wanted{.model = "base", .adapters = {"y", "x"}, .prompt_tokens = 10};
  EXPECT_EQ(cluster_.choose(wanted, now_).engine, EngineIndex(1));
  const RouteRequest request = EngineSearch(cluster_, wanted).request(now_);
  EXPECT_EQ(request.rank, 24);
  EXPECT_EQ(request.adapter_bytes, 14);
  wanted.adapters.push_back("nothing");
  EXPECT_EQ(cluster_.choose(wanted, now_).kind, Choice::Kind::unknown);
  EXPECT_EQ(wanted.name(), "y+x+nothing");
  cluster_.set_offered({{"z", 8, 5, ""}});
  EXPECT_EQ(choose("y+z"), 1) << "which can load the other";
  const AdapterReport exact = {.name = "z+x", .rank = 8, .bytes = 5};
  ASSERT_TRUE(report(1, report_of("b", {y, x, exact}), false));
  EXPECT_EQ(choose("z+x"), 1) << "an adapter of exactly that name";
}

TEST_F(ClusterTest, SendsAnAdaptersRequestsToEnginesThatHaveIt) {
  ASSERT_TRUE(report(0, report_of("a")));
  EXPECT_EQ(choose("x"), kNobody);  // the other engine has not reported yet and may have it
  ASSERT_TRUE(report(1, report_of("b", {{.name = "x", .rank = 16, .bytes = 9}})));
  EXPECT_EQ(choose("x"), 1);
  EXPECT_EQ(choose("y"), kUnknown);
  EXPECT_EQ(choose("x", 1), 1) << "avoided, but there is no other";
  EXPECT_EQ(choose("base", 0), 1);
  cluster_.set_aside(EngineIndex(1), "late");
  EXPECT_EQ(choose("x"), kNobody) << "it comes back";
  EngineReport without = report_of("b");
  ASSERT_TRUE(report(1, std::move(without)));
  EXPECT_EQ(choose("x"), kUnknown);
  const std::string address = cluster_.engines()[0].address.text();
  cluster_.expect_adapter(EngineIndex(0), "http://10.9.9.9:1", "x", true);
  EXPECT_EQ(choose("x"), kUnknown) << "its place was another's when it was asked";
  cluster_.expect_adapter(EngineIndex(0), address, "x", true);
  EXPECT_EQ(choose("x"), 0);
  EngineReport removed = report_of("a");
  removed.removed = {"x"};
  ASSERT_TRUE(report(0, std::move(removed), false));
  EXPECT_EQ(choose("x"), kUnknown);
}

TEST_F(ClusterTest, SendsRequestsForOfferedAdaptersToEnginesThatLackThem) {
  ASSERT_TRUE(report(0, report_of("a", {{.name = "x", .rank = 16, .bytes = 9}})));
  ASSERT_TRUE(report(1, report_of("b")));
  EXPECT_EQ(choose("y"), kUnknown);
  cluster_.set_offered({{"y", 8, 5}, {"x", 16, 9}, {"base", 8, 5}});
  EXPECT_EQ(choose("y"), 0);
  EXPECT_EQ(choose("x", 0), 1) << "the other can load it";
  EXPECT_EQ(choose("base"), 0) << "whatever an adapter is called";
  const SentId id = send(0, "y");
  EXPECT_EQ(cluster_.view(EngineIndex(0)).waiting_rank_sum, 8);
  cluster_.ended(EngineIndex(0), id);
  cluster_.set_offered({});
  EXPECT_EQ(choose("y"), kUnknown);
  EXPECT_EQ(choose("x"), 0);
  EXPECT_EQ(choose("x", 0), 0) << "no other has it";
}

TEST_F(ClusterTest, TellsWhereAnAdapterIsOnTheDeviceAndPinned) {
  const AdapterReport resident{
      .name = "x", .rank = 16, .bytes = 9, .tier = AdapterTier::resident, .pinned = true};
  ASSERT_TRUE(report(0, report_of("a", {{.name = "x", .rank = 16, .bytes = 9}})));
  ASSERT_TRUE(report(1, report_of("b", {resident})));
  const std::vector<AdapterPlaces> places = cluster_.models().places();
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].engines, 2);
  EXPECT_EQ(places[0].resident, std::vector<EngineIndex>{EngineIndex(1)});
  EXPECT_EQ(places[0].pinned, std::vector<EngineIndex>{EngineIndex(1)});
  ASSERT_TRUE(report(1, report_of("b", {{.name = "x", .rank = 16, .bytes = 9}}), false));
  EXPECT_TRUE(cluster_.models().places()[0].pinned.empty());
}

TEST_F(ClusterTest, GivesADoubtedEngineNothingUntilItsNextReport) {
  ASSERT_TRUE(report(0, report_of("a")));
  cluster_.doubt(EngineIndex(0));
  EXPECT_EQ(choose("base"), kNobody);
  ASSERT_TRUE(report(0, report_of("a"), false));
  EXPECT_EQ(choose("base"), 0);
}

TEST(ClusterPrefixes, DrawPromptsToWhereTheyWereSentUntilTheEngineBeginsAnew) {
  Cluster cluster(make_policy("tandem", {}).value());
  const TimePoint now = TimePoint() + std::chrono::hours(1);
  const auto report = [&](int engine, const std::string& id, std::int64_t running) {
    EngineReport one = report_of(id);
    one.view.kv_tokens = one.view.kv_free_tokens = 10'000;
    one.view.costs.prefill_token_s = 1e-3;
    one.view.running.requests = running;
    one.view.max_requests = 64;
    return cluster.report(EngineIndex(engine), std::move(one), true, now);
  };
  for (int i = 0; i < 3; ++i) {
    cluster.add({"h", i + 1});
    ASSERT_TRUE(report(i, std::to_string(i), i == 2 ? 1 : 0));
  }
  const auto wanted = [](std::uint64_t prompt) {
    return Wanted{.model = "base",
                  .prompt_tokens = 800,
                  .prompt = {{prompt, 500}, {prompt + 1, 700}},
                  .expected_tokens = 10};
  };
  const auto chosen = [&](std::uint64_t prompt) {
    return cluster.choose(wanted(prompt), now).engine.value();
  };
  const auto send = [&](int engine, std::uint64_t prompt) {
    const SentId id = cluster.sent(EngineIndex(engine), wanted(prompt), now);
    const EngineView view = cluster.view(EngineIndex(engine));
    cluster.ended(EngineIndex(engine), id);
    return view.waiting.tokens;
  };
  EXPECT_EQ(chosen(10), 0);
  EXPECT_EQ(send(2, 10), 800);
  EXPECT_EQ(chosen(10), 2);  // although it is the one with work
  EXPECT_EQ(chosen(20), 0);
  EXPECT_EQ(send(2, 10), 100);  // only the part that is not cached
  ASSERT_TRUE(report(2, "2", 1));
  EXPECT_EQ(chosen(10), 2);
  ASSERT_TRUE(report(2, "started anew", 1));
  EXPECT_EQ(chosen(10), 0);
  EXPECT_EQ(send(2, 10), 800);
  cluster.remove(EngineIndex(2));
  EXPECT_EQ(cluster.add({"h", 9}), EngineIndex(2));
  ASSERT_TRUE(report(2, "started anew", 1));
  EXPECT_EQ(chosen(10), 0);
}

TEST_F(ClusterTest, BelievesNoSecondEngineOfOneId) {
  ASSERT_TRUE(report(0, report_of("a")));
  const Status twin = report(1, report_of("a"));
  EXPECT_EQ(twin.message(),
            "two engines have the id a: this one and http://h:1; give each engine by "
            "one address, and each an id of its own");
  EXPECT_FALSE(cluster_.engines()[1].up);
}

TEST_F(ClusterTest, ForgetsAnEngineThatIsGoneAndUsesItsPlaceAgain) {
  ASSERT_TRUE(report(0, report_of("a", {{.name = "x", .rank = 16}})));
  ASSERT_TRUE(report(1, report_of("b")));
  cluster_.remove(EngineIndex(0));
  EXPECT_EQ(choose("x"), kUnknown);
  EXPECT_EQ(choose("base"), 1);
  EXPECT_EQ(cluster_.add({"new", 1}), EngineIndex(0));
}

TEST(ScaleHint, AsksForMoreEnginesWhenNoneIsLightlyLoadedAndGivesIdleOnesBack) {
  EngineView engine;
  engine.max_requests = 10;
  engine.kv_tokens = engine.kv_free_tokens = 1000;
  std::vector<EngineView> engines(3, engine);
  engines[0].running.requests = 3;
  ScaleHint hint = scale_hint(engines, 0);
  EXPECT_EQ(hint.action(), "shrink");
  EXPECT_EQ(hint.wanted, 1);
  EXPECT_EQ(hint.idle.size(), 2U);
  for (EngineView& one : engines) one.running.requests = 6;
  hint = scale_hint(engines, 0);
  EXPECT_EQ(hint.action(), "grow");
  EXPECT_EQ(hint.wanted, 4);
  engines[2].running.requests = 5;
  EXPECT_EQ(scale_hint(engines, 0).action(), "hold");
  EXPECT_EQ(scale_hint(engines, 40).wanted, 8) << "those that wait count";
  engines[2].kv_free_tokens = 100;
  EXPECT_EQ(scale_hint(engines, 0).action(), "grow");
  EXPECT_EQ(scale_hint({}, 5).wanted, 1);
}

}  // namespace
}  // namespace tandem
