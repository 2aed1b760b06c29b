#include "scheduler/cluster/picker/picker.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

using Subset = std::optional<std::vector<std::string>>;

EngineReport report_of(const std::string& id, std::vector<AdapterReport> adapters) {
  EngineReport report;
  report.id = id;
  report.model = "base";
  report.view.max_requests = 4;
  report.view.kv_tokens = report.view.kv_free_tokens = 100'000;
  report.view.adapter_free_bytes = 1 << 20;
  report.view.costs.step_s = 0.01;
  report.view.cold.link_bytes_per_s = 1000;  // makes cold starts expensive
  report.adapters = std::move(adapters);
  return report;
}

// Engines h:1, h:2, h:3, all with "law"; it is resident only at the second.
struct Three {
  explicit Three(const std::string& policy = "most_idle", PickLimits limits = {})
      : picker(make_policy(policy, {}).value(), limits) {
    for (int i = 0; i < 3; ++i) {
      const EngineIndex engine = add({"10.0.0.1", i + 1});
      const AdapterTier tier = i == 1 ? AdapterTier::resident : AdapterTier::host;
      const std::vector<AdapterReport> adapters{
          {.name = "law", .rank = 16, .bytes = 4000, .tier = tier, .active = i == 1 ? 1 : 0}};
      EXPECT_TRUE(picker.cluster().report(engine, report_of("engine" + std::to_string(i), adapters),
                                          true, now));
    }
  }
  EngineIndex add(const HttpAddress& address) {
    const EngineIndex engine = picker.cluster().add(address);
    picker.engine_added(engine);
    return engine;
  }
  Pick ask(const std::string& model, const Subset& subset = {}) {
    return picker.pick({.model = model, .prompt_tokens = 10, .expected_tokens = 10}, subset, now);
  }
  void fill(int engine, std::int64_t waiting) {
    EngineReport report = report_of("engine" + std::to_string(engine), {});
    report.view.waiting.requests = waiting;
    EXPECT_TRUE(picker.cluster().report(EngineIndex(engine), std::move(report), false, now));
  }

  TimePoint now = TimePoint() + std::chrono::hours(1);
  Picker picker;
};

int status_of(const Pick& pick) {
  return pick.refused ? pick.refused->status : 200;
}

TEST(Picker, SendsAnAdapterToWhereItIsResident) {
  for (const std::string policy : {"affinity", "tandem"}) {
    Three three(policy);
    EXPECT_EQ(three.ask("law").endpoints, "10.0.0.1:2,10.0.0.1:1,10.0.0.1:3") << policy;
  }
}

TEST(Picker, ChoosesWhateverThePolicy) {
  for (const std::string& policy : policy_names()) {
    Three three(policy);
    const Pick pick = three.ask("law");
    EXPECT_EQ(status_of(pick), 200) << policy;
    EXPECT_NE(pick.id, 0U) << policy;
    EXPECT_EQ(std::count(pick.endpoints.begin(), pick.endpoints.end(), ','), 2) << policy;
  }
}

TEST(Picker, NamesTheResidentEngineFirstAmongTheOthers) {
  Three three;
  EXPECT_EQ(three.ask("law").endpoints, "10.0.0.1:1,10.0.0.1:2,10.0.0.1:3");
}

TEST(Picker, KeepsToTheSubset) {
  Three three;
  EXPECT_EQ(three.ask("law", {{"10.0.0.1:3", "10.9.9.9:1"}}).endpoints, "10.0.0.1:3");
  EXPECT_EQ(status_of(three.ask("law", {{"10.9.9.9:1"}})), 503);
  EXPECT_EQ(status_of(three.ask("law", {std::vector<std::string>{}})), 503);
}

TEST(Picker, TellsOfNoMoreFallbacksThanItMay) {
  Three three("most_idle", {.max_waiting = 10, .max_fallbacks = 0});
  EXPECT_EQ(three.ask("base").endpoints, "10.0.0.1:1");
}

TEST(Picker, RefusesWhatNoEngineHas) {
  Three three;
  EXPECT_EQ(status_of(three.ask("nobody's")), 404);
  for (int i = 0; i < 3; ++i) three.picker.cluster().set_aside(EngineIndex(i), "silent");
  const Pick pick = three.ask("law");
  EXPECT_EQ(status_of(pick), 503);
  EXPECT_EQ(pick.refused->retry_after_s, 1);
  EXPECT_EQ(pick.id, 0U);
  EXPECT_EQ(three.picker.running(), 0);
}

TEST(Picker, RefusesForNowWhenAllEnginesAreFull) {
  Three three("most_idle", {.max_waiting = 5, .max_fallbacks = 3});
  three.fill(0, 5);
  three.fill(1, 7);
  EXPECT_EQ(three.ask("law").endpoints, "10.0.0.1:3,10.0.0.1:2,10.0.0.1:1");
  three.fill(2, 5);
  const Pick pick = three.ask("law");
  EXPECT_EQ(status_of(pick), 429);
  EXPECT_EQ(pick.refused->retry_after_s, 1);
  EXPECT_EQ(status_of(three.ask("law", {{"10.9.9.9:1"}})), 503);
}

TEST(Picker, RefusesForNowWhenThePolicyWantsNoEngine) {
  Three three("first_fit");
  for (int i = 0; i < 12; ++i) EXPECT_EQ(status_of(three.ask("base")), 200);  // 3 engines x 4
  EXPECT_EQ(status_of(three.ask("base")), 429);
}

TEST(Picker, CountsWhatItSentUntilItIsOver) {
  Three three;
  const Pick first = three.ask("base");
  EXPECT_EQ(first.endpoints.substr(0, 10), "10.0.0.1:1");
  const Pick second = three.ask("base");
  EXPECT_EQ(second.endpoints.substr(0, 10), "10.0.0.1:2");
  three.picker.over(first.id, true, three.now);
  EXPECT_EQ(three.ask("base").endpoints.substr(0, 10), "10.0.0.1:1");
  EXPECT_EQ(three.picker.running(), 2);
  // The answer was not complete: the request may still be running, so it counts a little longer.
  three.picker.over(second.id, false, three.now);
  EXPECT_EQ(three.ask("base").endpoints.substr(0, 10), "10.0.0.1:3");
  three.now += std::chrono::seconds(1);
  EXPECT_EQ(three.ask("base").endpoints.substr(0, 10), "10.0.0.1:2");
  EXPECT_EQ(three.picker.running(), 3);
  three.picker.over(first.id, true, three.now);  // the request has ended already
  three.picker.over(12345, false, three.now);
  three.now += std::chrono::seconds(1);
  EXPECT_EQ(three.picker.running(), 3);
}

TEST(Picker, SendsNothingNewWhereAnotherHadToAnswer) {
  Three three;
  const Pick pick = three.ask("base");
  EXPECT_FALSE(three.picker.served(pick.id, "10.0.0.1:1", three.now));
  EXPECT_FALSE(three.picker.served(pick.id, "10.9.9.9:1", three.now));
  EXPECT_EQ(three.picker.served(pick.id, "10.0.0.1:2", three.now), EngineIndex(0));
  EXPECT_EQ(three.picker.cluster().engines()[0].sent, 0);
  EXPECT_EQ(three.picker.cluster().engines()[1].sent, 1);
  EXPECT_EQ(three.ask("base").endpoints, "10.0.0.1:3,10.0.0.1:2");
  three.fill(0, 0);
  EXPECT_EQ(three.ask("base").endpoints.substr(0, 10), "10.0.0.1:1");
}

TEST(Picker, ForgetsAnEngineThatIsGone) {
  Three three;
  const Pick pick = three.ask("base");
  three.picker.cluster().remove(EngineIndex(0));
  three.picker.engine_gone(EngineIndex(0));
  EXPECT_EQ(three.picker.running(), 0);
  EXPECT_EQ(three.add({"10.0.0.2", 9}), EngineIndex(0));
  three.picker.over(pick.id, true, three.now);
  EXPECT_EQ(three.picker.cluster().engines()[0].sent, 0);
  EXPECT_EQ(three.picker.endpoint(EngineIndex(0)), "10.0.0.2:9");
}

}  // namespace
}  // namespace tandem
