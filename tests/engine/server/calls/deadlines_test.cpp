// Calls with a first-token deadline, over a real engine.
#include <string>
#include <vector>

#include "tests/engine/server/cluster_fixture.h"

namespace tandem::test {
namespace {

using nlohmann::json;

constexpr const char* kPath = "/v1/completions";

// Shorter than any answer takes, so it is missed on every machine.
const std::map<std::string, std::string> kHopeless{{"x-slo-ttft-ms", "0.000001"}};
const std::map<std::string, std::string> kGenerous{{"x-slo-ttft-ms", "600000"}};

json asked(bool stream) {
  return {{"prompt", "import os\n"},
          {"max_tokens", 6},
          {"temperature", 0},
          {"stream", stream},
          {"n", 2}};
}

json relayed(const json& request, const json& sent) {
  json body{
      {"path", kPath}, {"id", "an-id"}, {"created", 1763800000}, {"seed", 1}, {"request", request}};
  if (!sent.is_null()) body["sent"] = sent;
  return body;
}

std::string retry_after(const HttpResponse& response) {
  for (const auto& [name, value] : response.headers) {
    if (name == "Retry-After") return value;
  }
  return {};
}

// Returns the text of each choice.
std::vector<std::string> texts(EventReader& reader) {
  std::vector<std::string> all(2);
  for (const std::string& event : reader.rest()) {
    const std::size_t at = event.find("data: {");
    if (at == std::string::npos) continue;
    const json chunk = json::parse(event.substr(at + 6));
    if (!chunk.contains("choices") || chunk["choices"].empty()) continue;
    const json& choice = chunk["choices"][0];
    all.at(choice["index"].get<std::size_t>()) += choice["text"].get<std::string>();
  }
  return all;
}

TEST(Deadlines, MakeARequestThatMissesThemA429WhetherItIsAStreamOrNot) {
  RestEngine engine;
  for (const bool stream : {false, true}) {
    for (const bool relay : {false, true}) {
      const HttpResponse response =
          settled(relay ? engine.post("/v1/relay", relayed(asked(stream), {}), kHopeless)
                        : engine.post(kPath, asked(stream), kHopeless));
      EXPECT_EQ(response.status, 429) << stream << relay;
      EXPECT_EQ(response.source, nullptr);
      const json error = json::parse(response.body)["error"];
      EXPECT_EQ(error["code"], "deadline_unreachable") << error;
      EXPECT_GE(std::stoi(retry_after(response)), 1);
      EXPECT_LE(std::stoi(retry_after(response)), 60);
    }
  }
  const EngineStats stats = engine.engine->engine->stats();
  EXPECT_GE(stats.aborts_expired, 4U);
  EXPECT_EQ(stats.running + stats.waiting, 0);
}

TEST(Deadlines, ChangeNothingForARequestThatMeetsThem) {
  RestEngine engine;
  EventReader plain(engine.post(kPath, asked(true)));
  EventReader timed(engine.post(kPath, asked(true), kGenerous));
  EXPECT_EQ(timed.status(), 200);
  const std::vector<std::string> want = texts(plain);
  EXPECT_FALSE(want[0].empty());
  EXPECT_EQ(texts(timed), want);
  json constrained = asked(true);
  constrained["structured_outputs"] = {{"regex", "[a-z]{4}"}};
  EventReader bound(engine.post(kPath, constrained, kGenerous));
  EXPECT_EQ(bound.status(), 200);
  EXPECT_EQ(texts(bound)[0].size(), 4U);
}

// The client has its first token already, so the deadline no longer applies.
TEST(Deadlines, AreNotOfAStreamThatGoesOnFromAnotherEngine) {
  RestEngine engine;
  const json said{{"tokens", {7, 8}}, {"finish", nullptr}, {"events", 1}};
  const json sent = json::array({said, said});
  EventReader reader(engine.post("/v1/relay", relayed(asked(true), sent), kHopeless));
  EXPECT_EQ(reader.status(), 200) << reader.body();
  EXPECT_FALSE(reader.rest().empty());
}

}  // namespace
}  // namespace tandem::test
