// Constraints on the text: read from every field that may have one, refused with its name, and
// compiled without blocking other calls.
#include <condition_variable>
#include <mutex>

#include "server_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;
using Kind = TextConstraint::Kind;

constexpr const char* kCompletionsPath = "/v1/completions";
constexpr const char* kChatPath = "/v1/chat/completions";

class ConstraintFields : public ServerTest {
 protected:
  static json with(const char* field, json value) {
    json body{{"prompt", "p"}};
    body[field] = std::move(value);
    return body;
  }
  // Returns the constraint of the latest request.
  TextConstraint taken() { return service.run(service.num_runs() - 1)->request.constraint; }
};

TEST_F(ConstraintFields, AreReadFromEveryFieldThatMaySayIt) {
  start();
  const json schema{{"type", "object"}};
  const std::string grammar = "root ::= \"a\" | \"b \\\"c\\\\\\u000a\"";
  const struct {
    json body;
    TextConstraint constraint;
  } cases[] = {
      {with("response_format", {{"type", "text"}}), {}},
      {with("response_format", {{"type", "json_object"}}), {Kind::json_object, ""}},
      {with("response_format",
            {{"type", "json_schema"},
             {"json_schema", {{"name", "n"}, {"schema", schema}, {"strict", true}}}}),
       {Kind::json_schema, schema.dump()}},
      {with("response_format", {{"type", "json_object"}, {"schema", schema}}),
       {Kind::json_schema, schema.dump()}},
      {with("response_format", {{"type", "json_object"}, {"schema", nullptr}}),
       {Kind::json_object, ""}},
      {with("structured_outputs", {{"json", schema}, {"regex", nullptr}}),
       {Kind::json_schema, schema.dump()}},
      {with("structured_outputs", {{"json", "{ }"}}), {Kind::json_schema, "{ }"}},
      {with("structured_outputs", {{"json_object", true}}), {Kind::json_object, ""}},
      {with("structured_outputs", {{"regex", "a+"}}), {Kind::regex, "a+"}},
      {with("structured_outputs", {{"choice", {"a", "b \"c\\\n"}}}), {Kind::grammar, grammar}},
      {with("structured_outputs", {{"grammar", "root ::= \"x\""}}),
       {Kind::grammar, "root ::= \"x\""}},
      {with("structured_outputs", {{"structural_tag", {{"type", "structural_tag"}}}}),
       {Kind::structural_tag, R"({"type":"structural_tag"})"}},
      {with("structured_outputs", {{"json_object", false}}), {}},
      {with("structured_outputs", json::object()), {}},
      {with("guided_json", schema), {Kind::json_schema, schema.dump()}},
      {with("guided_regex", "a+"), {Kind::regex, "a+"}},
      {with("guided_choice", {"a", "b \"c\\\n"}), {Kind::grammar, grammar}},
      {with("guided_grammar", "root ::= \"x\""), {Kind::grammar, "root ::= \"x\""}}};
  for (const auto& [body, constraint] : cases) {
    const auto response = post(port, kCompletionsPath, body);
    ASSERT_EQ(response.status, 200) << body << response.body;
    EXPECT_EQ(taken(), constraint) << body;
  }
}

TEST_F(ConstraintFields, KeepTheOrderOfASchemasProperties) {
  start();
  const std::string schema = R"({"properties":{"z":{},"a":{},"m":{}},"type":"object"})";
  for (const auto& [path, head] :
       {std::pair(kCompletionsPath, R"({"prompt":"p",)"),
        std::pair(kChatPath, R"({"messages":[{"role":"user","content":"x"}],)")}) {
    const std::string body = std::string(head) + "\"guided_json\":" + schema + "}";
    const auto response = post_raw(port, path, body);
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(taken().text, schema);
  }
}

TEST_F(ConstraintFields, AreRefusedByNameWhenTheyAreWrong) {
  start();
  const auto format = [](json wrapped) {
    return json{{"type", "json_schema"}, {"json_schema", std::move(wrapped)}};
  };
  const struct {
    json body;
    const char* param;
    const char* message;
  } cases[] = {
      {with("response_format", {{"type", "xml"}}), "response_format", "json_object"},
      {with("response_format", {{"type", "json_schema"}}), "response_format", "is missing"},
      {with("response_format", format({{"schema", json::object()}})), "response_format", "name"},
      {with("response_format", format({{"name", "n"}})), "response_format", "schema must be"},
      {with("response_format",
            format({{"name", "n"}, {"schema", json::object()}, {"strict", "yes"}})),
       "response_format", "strict"},
      {with("response_format", {{"type", "json_object"}, {"schema", 7}}), "response_format",
       "schema must be"},
      {with("structured_outputs", {{"json", false}}), "structured_outputs",
       "structured_outputs.json"},
      {with("structured_outputs", {{"regex", 7}}), "structured_outputs",
       "structured_outputs.regex"},
      {with("structured_outputs", {{"regex", "a"}, {"json", json::object()}}), "structured_outputs",
       "give one of them"},
      {with("structured_outputs", {{"whitespace_pattern", " "}}), "structured_outputs",
       "'structured_outputs.whitespace_pattern' is not supported"},
      {with("structured_outputs", {{"choice", json::array()}}), "structured_outputs", "choice"},
      {with("guided_choice", {"a", ""}), "guided_choice", "non-empty strings"},
      {json{{"prompt", "p"}, {"guided_regex", "a"}, {"response_format", {{"type", "json_object"}}}},
       "guided_regex", "'response_format' says already"},
      {with("allowed_token_ids", json::array()), "allowed_token_ids", "non-empty list"},
      {with("allowed_token_ids", {257}), "allowed_token_ids", "ids go from 0 to 256"},
      {with("bad_words", {""}), "bad_words", "non-empty strings"},
      {with("bad_words", {"  "}), "bad_words", "no word"},
      {with("bad_words", std::vector<std::string>(257, "x")), "bad_words", "at most 256"},
  };
  for (const auto& [body, param, message] : cases) {
    const auto response = post(port, kCompletionsPath, body);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_EQ(response.error("param"), param) << body << response.body;
    EXPECT_NE(response.error().find(message), std::string::npos) << body << response.body;
  }
  EXPECT_EQ(service.num_runs(), 0U);
}

TEST_F(ConstraintFields, AreCompiledBeforeTheFirstByteOfAStream) {
  service.compiler = [](const TextConstraint& constraint) {
    if (constraint.text == "[") return invalid("the bracket is open");
    if (constraint.text == "busy") return error(StatusCode::resource_exhausted, "too many");
    return Status();
  };
  start();
  for (const bool stream : {false, true}) {
    json body = with("structured_outputs", {{"regex", "["}});
    body["stream"] = stream;
    const auto refused = post(port, kCompletionsPath, body);
    EXPECT_EQ(refused.status, 400) << refused.body;
    EXPECT_EQ(refused.error("param"), "structured_outputs");
    EXPECT_EQ(refused.error(), "'structured_outputs.regex': the bracket is open");
    body["structured_outputs"]["regex"] = "busy";
    EXPECT_EQ(post(port, kCompletionsPath, body).status, 429);
    body["structured_outputs"]["regex"] = "a";
    const auto answered = post(port, kCompletionsPath, body);
    EXPECT_EQ(answered.status, 200) << answered.body;
    EXPECT_NE(answered.body.find("Hello"), std::string::npos);
  }
  EXPECT_EQ(service.num_runs(), 2U);
}

// Compilations do not occupy the threads that serve calls.
TEST_F(ConstraintFields, HoldNoCallUpWhileTheyAreCompiled) {
  std::mutex mutex;
  std::condition_variable changed;
  bool go_on = false;
  service.compiler = [&](const TextConstraint&) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return go_on; });
    return Status();
  };
  start();
  std::vector<std::jthread> clients;
  std::atomic<int> answered = 0;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      if (post(port, kCompletionsPath, with("guided_regex", "a")).status == 200) ++answered;
    });
  }
  EXPECT_EQ(post(port, kCompletionsPath, {{"prompt", "p"}}).status, 200);
  EXPECT_EQ(answered, 0);
  {
    const std::lock_guard lock(mutex);
    go_on = true;
  }
  changed.notify_all();
  clients.clear();
  EXPECT_EQ(answered, 8);
}

TEST_F(ConstraintFields, TokenizeBadWordsWithAndWithoutASpaceBefore) {
  start();
  json body = with("bad_words", {" no", "x"});
  body["allowed_token_ids"] = {1, 2};
  ASSERT_EQ(post(port, kCompletionsPath, body).status, 200);
  const SamplingParams& sampling = service.run(0)->request.sampling;
  // A byte is a token here: a word after a space ends with the word itself, so it needs no ban of
  // its own.
  EXPECT_EQ(sampling.bad_words, (std::vector<std::vector<TokenId>>{{'n', 'o'}, {'x'}}));
  EXPECT_EQ(sampling.allowed_token_ids, (std::vector<TokenId>{1, 2}));
}

TEST_F(ConstraintFields, AreRefusedByAServerThatEnforcesNone) {
  service.enforces = false;
  start();
  const auto response = post(port, kCompletionsPath, with("guided_regex", "a"));
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.error("param"), "guided_regex");
}

}  // namespace
}  // namespace tandem
