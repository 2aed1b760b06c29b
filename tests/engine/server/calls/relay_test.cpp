// A stream is cut anywhere and continued by another engine: together they say what one engine would
// have said.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include "tests/engine/server/cluster_fixture.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_seed.h"

namespace tandem::test {
namespace {

using nlohmann::json;

struct Asked {
  std::string name;
  std::string path;
  json body;
};

// Plays the router: what it remembers of a stream, and what it passes on.
class Relayed {
 public:
  Relayed(Asked asked, std::uint64_t seed, std::size_t num_choices)
      : asked_(std::move(asked)), seed_(seed), sent_(num_choices), events_(num_choices, 0) {
    for (json& choice : sent_) choice = {{"tokens", json::array()}, {"finish", nullptr}};
  }

  json body() const {
    json body{{"path", asked_.path},
              {"id", "an-id"},
              {"created", 1763800000},
              {"seed", seed_},
              {"request", asked_.body}};
    bool any = false;
    for (const json& choice : sent_)
      any = any || !choice["tokens"].empty() || choice["finish"] != nullptr;
    if (!any) return body;
    body["sent"] = sent_;
    for (std::size_t i = 0; i < sent_.size(); ++i) body["sent"][i]["events"] = events_[i];
    return body;
  }

  void pass(const std::string& event) {
    std::istringstream lines(event);
    std::optional<std::size_t> finished;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string word;
      words >> word;
      if (word == ":tokens") {
        std::size_t index = 0;
        words >> index;
        for (TokenId token = 0; words >> token;) sent_.at(index)["tokens"].push_back(token);
        events_.at(index) = 0;
      } else if (word == ":finish") {
        std::size_t index = 0;
        words >> index >> word;
        sent_.at(index)["finish"] = word;
      } else if (word == "data:") {
        const std::string data = line.substr(6);
        if (data == "[DONE]") {
          done_ = true;
          continue;
        }
        take(json::parse(data));
      }
    }
  }

  bool done() const { return done_; }
  std::size_t num_said() const { return num_said_; }
  const std::vector<std::vector<json>>& said() const { return said_; }
  const std::vector<json>& sent() const { return sent_; }
  const json& usage() const { return usage_; }
  const Asked& asked() const { return asked_; }

 private:
  void take(json chunk) {
    ++num_said_;
    ASSERT_FALSE(chunk.contains("error")) << asked_.name << ": " << chunk;
    EXPECT_EQ(chunk["id"], "an-id");
    EXPECT_EQ(chunk["created"], 1763800000);
    if (chunk["choices"].empty()) {
      usage_ = chunk["usage"];
      usage_.erase("prompt_tokens_details");  // depends on the engine's cache
      return;
    }
    json& choice = chunk["choices"][0];
    const auto index = choice["index"].get<std::size_t>();
    if (choice.contains("delta") && choice["delta"].contains("tool_calls")) {
      choice["delta"]["tool_calls"][0].erase("id");  // random
    }
    ++events_.at(index);
    said_.resize(sent_.size());
    said_.at(index).push_back(std::move(choice));
  }

  Asked asked_;
  std::uint64_t seed_;
  std::vector<json> sent_;
  std::vector<std::size_t> events_;
  std::vector<std::vector<json>> said_;  // chunks by choice
  json usage_;
  std::size_t num_said_ = 0;
  bool done_ = false;
};

// Compares all but the last digits of log-probabilities, because products of other shapes round
// differently.
bool alike(const json& a, const json& b) {
  if (a.is_number_float() && b.is_number_float()) {
    return std::abs(a.get<double>() - b.get<double>()) < 2e-3;
  }
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (a.is_array()) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!alike(a[i], b[i])) return false;
    }
    return true;
  }
  if (!a.is_object()) return a == b;
  for (const auto& [name, value] : a.items()) {
    if (!b.contains(name) || !alike(value, b[name])) return false;
  }
  return true;
}

std::size_t num_choices(const Asked& asked) {
  const json& prompt = asked.body.value("prompt", json(""));
  const std::size_t prompts = prompt.is_array() && prompt[0].is_string() ? prompt.size() : 1;
  return prompts * asked.body.value("n", std::size_t{1});
}

class RelayTest : public ::testing::Test {
 protected:
  static RestEngine& engine(std::size_t i) {
    static RestEngine engines[2];
    return engines[i % 2];
  }
  // Passes on `events` events, or all.
  static void follow(RestEngine& engine, Relayed& relayed, std::size_t events) {
    EventReader reader(engine.post("/v1/relay", relayed.body()));
    ASSERT_EQ(reader.status(), 200) << relayed.asked().name << ": " << reader.body();
    for (std::size_t i = 0; i < events; ++i) {
      const std::string event = reader.next();
      if (event.empty()) return;
      relayed.pass(event);
    }
  }
  static void expect_same(const Relayed& whole, const Relayed& pieces, const std::string& cuts) {
    const std::string what = whole.asked().name + ", cut after " + cuts;
    ASSERT_TRUE(pieces.done()) << what;
    ASSERT_EQ(whole.said().size(), pieces.said().size()) << what;
    for (std::size_t i = 0; i < whole.said().size(); ++i) {
      ASSERT_EQ(whole.said()[i].size(), pieces.said()[i].size()) << what << ": choice " << i;
      for (std::size_t k = 0; k < whole.said()[i].size(); ++k) {
        EXPECT_TRUE(alike(whole.said()[i][k], pieces.said()[i][k]))
            << what << ": choice " << i << " part " << k << "\n"
            << whole.said()[i][k] << "\n"
            << pieces.said()[i][k];
      }
      EXPECT_EQ(whole.sent()[i], pieces.sent()[i]) << what << ": choice " << i;
    }
    EXPECT_EQ(whole.usage(), pieces.usage()) << what;
  }
  static constexpr std::size_t kAll = 1U << 20;
};

json completion(json fields) {
  json body{{"prompt", "import os\nimport sys\n\n\nclass Reader:\n    def"},
            {"max_tokens", 14},
            {"temperature", 0},
            {"stream", true}};
  body.update(fields);
  return body;
}

json chat(json fields) {
  json body{{"messages", {{{"role", "user"}, {"content", "Write a header"}}}},
            {"max_completion_tokens", 14},
            {"stream", true}};
  body.update(fields);
  return body;
}

std::vector<Asked> requests(std::mt19937_64& random) {
  const std::string completions = "/v1/completions";
  const std::string chats = "/v1/chat/completions";
  const auto drawn = [&] { return static_cast<std::int64_t>(random() >> 2); };
  const json usage{{"include_usage", true}};
  const json tools{{{"type", "function"},
                    {"function",
                     {{"name", "find"},
                      {"parameters",
                       {{"type", "object"},
                        {"properties", {{"word", {{"type", "string"}, {"maxLength", 6}}}}},
                        {"required", json::array({"word"})}}}}}}};
  return {
      {"greedy", completions, completion(json::object())},
      {"an adapter, seeded", completions,
       completion({{"model", "python"}, {"temperature", 1}, {"seed", drawn()}})},
      {"the router's seed", completions,
       completion({{"temperature", 0.9}, {"top_p", 0.9}, {"stream_options", usage}})},
      {"several of several", completions,
       completion({{"prompt", {"import", "def f(", "/*\n"}},
                   {"n", 2},
                   {"temperature", 1.1},
                   {"max_tokens", 9},
                   {"stream_options", usage}})},
      {"log probabilities, echoed", completions,
       completion({{"prompt", {"import os", "x"}},
                   {"n", 2},
                   {"temperature", 0.8},
                   {"logprobs", 2},
                   {"echo", true},
                   {"max_tokens", 6}})},
      {"echo", completions, completion({{"echo", true}, {"max_tokens", 8}})},
      {"stop strings", completions,
       completion({{"stop", {"self", "\n\n"}},
                   {"temperature", 1.2},
                   {"n", 3},
                   {"min_tokens", 4},
                   {"include_stop_str_in_output", true}})},
      {"penalties", completions,
       completion({{"presence_penalty", 1.1},
                   {"frequency_penalty", 0.7},
                   {"repetition_penalty", 1.3},
                   {"temperature", 0.7}})},
      {"ends ignored", completions,
       completion({{"ignore_eos", true}, {"temperature", 1.5}, {"max_tokens", 16}})},
      {"an object", completions,
       completion({{"response_format", {{"type", "json_object"}}}, {"temperature", 1}})},
      {"characters in pieces", completions,
       completion({{"structured_outputs", {{"regex", "[äöü€ß中]{6}"}}},
                   {"temperature", 1},
                   {"logprobs", 1},
                   {"max_tokens", 16}})},
      {"a chat", chats,
       chat({{"n", 2}, {"temperature", 0.9}, {"logprobs", true}, {"top_logprobs", 2}})},
      {"a call of a tool", chats,
       chat({{"tools", tools},
             {"tool_choice", "required"},
             {"temperature", 1},
             {"max_completion_tokens", 40},
             {"stream_options", usage}})},
      {"tools that are not called", chats, chat({{"tools", tools}, {"temperature", 0.5}})},
  };
}

TEST_F(RelayTest, SaysWhatOneEngineWouldHaveSaidWhereverItIsCut) {
  const std::uint64_t seed = test_seed();
  std::mt19937_64 random(seed);
  for (const Asked& asked : requests(random)) {
    const std::uint64_t drawn = random();
    const auto relayed = [&] { return Relayed(asked, drawn, num_choices(asked)); };
    Relayed whole = relayed();
    follow(engine(0), whole, kAll);
    ASSERT_TRUE(whole.done()) << asked.name;
    const std::size_t events = whole.num_said();
    // Cuts at both ends and at some places in between, then once more.
    std::vector<std::size_t> cuts{1, events - 1, events};
    for (int i = 0; i < 2; ++i) cuts.push_back(random() % events);
    if (sanitized()) cuts.erase(cuts.begin(), cuts.end() - 1);
    for (const std::size_t cut : cuts) {
      Relayed pieces = relayed();
      follow(engine(0), pieces, cut);
      const std::size_t again = random() % 4;
      if (!pieces.done()) follow(engine(1), pieces, again);
      if (!pieces.done()) follow(engine(0), pieces, kAll);
      expect_same(whole, pieces, fmt::format("{} and {} of {}", cut, again, events));
      if (HasFatalFailure()) return;
    }
  }
}

// A router passes on the same data as a direct stream has.
TEST_F(RelayTest, SaysNothingElseToTheClientThanADirectCall) {
  const Asked asked{"", "/v1/completions", completion({{"seed", 5}, {"temperature", 1}})};
  const auto choices_of = [](const std::vector<std::string>& events) {
    std::vector<std::string> texts;
    for (const std::string& event : events) {
      const std::size_t at = event.find("data: ");
      if (at == std::string::npos || event.find("[DONE]") != std::string::npos) continue;
      texts.push_back(json::parse(event.substr(at + 6))["choices"].dump());
    }
    return texts;
  };
  const auto direct = choices_of(EventReader(engine(0).post(asked.path, asked.body)).rest());
  const auto relayed = EventReader(engine(0).post("/v1/relay", Relayed(asked, 1, 1).body())).rest();
  EXPECT_GT(direct.size(), 2U);
  EXPECT_EQ(choices_of(relayed), direct);
}

TEST_F(RelayTest, AnswersWholeWithTheIdThatItIsGiven) {
  Asked asked{"", "/v1/chat/completions", chat({{"temperature", 0}})};
  asked.body["stream"] = false;
  const json body =
      json::parse(settled(engine(0).post("/v1/relay", Relayed(asked, 1, 1).body())).body);
  EXPECT_EQ(body["id"], "an-id");
  EXPECT_EQ(body["created"], 1763800000);
}

TEST_F(RelayTest, RefusesAWrapperThatIsNone) {
  const Asked asked{"", "/v1/completions", completion({{"max_tokens", 4}})};
  const json good = Relayed(asked, 1, 1).body();
  const auto refused = [&](const json& change) {
    json body = good;
    body.update(change);
    const HttpResponse response = engine(0).post("/v1/relay", body);
    EXPECT_EQ(response.status, 400) << change << response.body;
    const json error = json::parse(response.body, nullptr, false);
    return error.is_object() ? error["error"]["param"].dump() + error["error"]["message"].dump()
                             : response.body;
  };
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(contains(refused({{"path", "/metrics"}}), "\"path\""));
  EXPECT_TRUE(contains(refused({{"id", "a\nb"}}), "\"id\""));
  EXPECT_TRUE(contains(refused({{"created", "now"}}), "\"created\""));
  EXPECT_TRUE(contains(refused({{"seed", -1}}), "\"seed\""));
  EXPECT_TRUE(contains(refused({{"request", "x"}}), "\"request\""));
  EXPECT_TRUE(
      contains(refused({{"request", {{"prompt", "x"}, {"temperature", -1}}}}), "\"temperature\""));
  EXPECT_TRUE(contains(refused({{"sent", 1}}), "\"sent\""));
  const json five{{"tokens", json::array({5})}};
  const auto sent = [&](const json& choice) {
    return refused(json{{"sent", json::array({choice})}});
  };
  EXPECT_TRUE(contains(sent(5), "tokens"));
  EXPECT_TRUE(contains(sent({{"tokens", json::array({-1})}}), "tokens"));
  EXPECT_TRUE(contains(sent({{"tokens", json::array({1.5})}}), "tokens"));
  EXPECT_TRUE(contains(sent({{"tokens", json::array()}, {"finish", 1}}), "finish"));
  EXPECT_TRUE(contains(sent({{"tokens", json::array()}, {"events", -1}}), "events"));
  EXPECT_TRUE(contains(sent({{"tokens", json::array({1 << 30})}}), "token id"));
  EXPECT_TRUE(contains(sent({{"tokens", json::array({5, 5, 5, 5, 5})}}), "the most"));
  EXPECT_TRUE(contains(refused({{"sent", json::array({five, five})}}),
                       "'sent' has 2 choices, and the request 1"));
  json whole = good["request"];
  whole["stream"] = false;
  EXPECT_TRUE(contains(refused({{"request", whole}, {"sent", json::array({five})}}), "stream"));
}

// A stream names its weights, and an engine with other weights refuses to continue it.
TEST_F(RelayTest, TellsTheWeightsAndGoesOnWithThoseAlone) {
  const json request = completion({{"model", "python"}, {"seed", 3}});
  json body{
      {"path", "/v1/completions"}, {"id", "x"}, {"created", 1}, {"seed", 1}, {"request", request}};
  const std::string first = EventReader(engine(0).post("/v1/relay", body)).next();
  std::istringstream words(first);
  std::string word;
  std::string base;
  std::string digest;
  words >> word >> base >> digest;
  EXPECT_EQ(word, ":weights") << first;
  EXPECT_EQ(base, "b1");
  EXPECT_EQ(digest.size(), 32U) << first;

  const auto status = [&](const std::string& wanted_base, const std::string& wanted_adapter) {
    body["weights"] = {{"base", wanted_base}, {"adapter", wanted_adapter}};
    const EventReader reader(engine(1).post("/v1/relay", body));
    if (reader.status() == 409) {
      EXPECT_EQ(json::parse(reader.body())["error"]["code"], "other_weights");
    }
    return reader.status();
  };
  EXPECT_EQ(status("b1", digest), 200);
  EXPECT_EQ(status("b1-whole", digest), 200) << "the same, read further";
  EXPECT_EQ(status("b1", std::string(32, '0')), 409);
  EXPECT_EQ(status("b1", ""), 409);
  EXPECT_EQ(status("b2", digest), 409);
  EXPECT_EQ(status("b1", std::string(200, '0')), 400);
  body["request"].erase("model");
  EXPECT_EQ(status("b1", ""), 200);
  EXPECT_EQ(status("b1", digest), 409);
}

TEST_F(RelayTest, RefusesTokensThatTheRequestCannotHaveGenerated) {
  Asked asked{"", "/v1/completions", completion({{"stop_token_ids", json::array({7})}})};
  json body = Relayed(asked, 1, 1).body();
  body["sent"] = json::array({json{{"tokens", json::array({5, 7, 5})}}});
  HttpResponse response = engine(0).post("/v1/relay", body);
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("nothing follows"), std::string::npos) << response.body;

  asked.body = completion({{"structured_outputs", {{"choice", {"yes", "no"}}}}});
  body = Relayed(asked, 1, 1).body();
  body["sent"] = json::array({json{{"tokens", json::array({300, 301})}}});
  response = settled(engine(0).post("/v1/relay", body));
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("constraint"), std::string::npos) << response.body;
}

}  // namespace
}  // namespace tandem::test
