// The server's treatment of each request field: accepted, refused by name, or ignored.
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "engine/server/messages/request/request_fields.h"
#include "engine/server/messages/request/unsupported_fields.h"
#include "server_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;
using FieldsTest = ServerTest;

constexpr const char* kCompletionsPath = "/v1/completions";
constexpr const char* kChatPath = "/v1/chat/completions";

json prompt_with(const char* field, json value) {
  json body{{"prompt", "p"}};
  body[field] = std::move(value);
  return body;
}

TEST_F(FieldsTest, NamesTheFieldAndItsRange) {
  start();
  const struct {
    json body;
    const char* param;
    const char* rule;
  } cases[] = {
      {prompt_with("temperature", -0.1), "temperature", "a number from 0 to 2"},
      {prompt_with("temperature", 2.1), "temperature", "a number from 0 to 2"},
      {prompt_with("temperature", "warm"), "temperature", "a number from 0 to 2"},
      {prompt_with("top_p", -0.01), "top_p", "a number from 0 to 1"},
      {prompt_with("top_p", 1.01), "top_p", "a number from 0 to 1"},
      {prompt_with("top_k", -2), "top_k", "an integer from -1 to 2147483647"},
      {prompt_with("top_k", 1.5), "top_k", "an integer"},
      {prompt_with("min_p", 1.5), "min_p", "a number from 0 to 1"},
      {prompt_with("presence_penalty", -2.5), "presence_penalty", "a number from -2 to 2"},
      {prompt_with("frequency_penalty", 3), "frequency_penalty", "a number from -2 to 2"},
      {prompt_with("repetition_penalty", 0), "repetition_penalty", "above 0 and up to 2"},
      {prompt_with("n", 0), "n", "an integer from 1 to 128"},
      {prompt_with("n", true), "n", "an integer from 1 to 128"},
      {prompt_with("max_tokens", 0), "max_tokens", "at least 1"},
      {prompt_with("max_tokens", -1), "max_tokens", "an integer from 0"},
      {prompt_with("max_completion_tokens", 0), "max_completion_tokens", "at least 1"},
      {json{{"prompt", "p"}, {"min_tokens", 6}, {"max_tokens", 5}}, "min_tokens",
       "must not exceed"},
      {prompt_with("logprobs", 21), "logprobs", "an integer from 0 to 20"},
      {prompt_with("seed", 1.5), "seed", "an integer of 64 bits"},
      {prompt_with("seed", 18446744073709551615U), "seed", "an integer of 64 bits"},
      {prompt_with("stop", ""), "stop", "a non-empty string"},
      {prompt_with("stop", json(std::vector<std::string>(17, "x"))), "stop", "at most 16"},
      {prompt_with("stop_token_ids", {1, -1}), "stop_token_ids", "a list of token ids"},
      {prompt_with("stop_token_ids", {257}), "stop_token_ids", "ids go from 0 to 256"},
      {prompt_with("logit_bias", {{"5", 101}}), "logit_bias", "from -100 to 100"},
      {prompt_with("logit_bias", {{"five", 1}}), "logit_bias", "token ids"},
      {prompt_with("logit_bias", {{"257", 1}}), "logit_bias", "ids go from 0 to 256"},
      {prompt_with("stream", 1), "stream", "true or false"},
      {prompt_with("stream_options", {{"include_usage", true}}), "stream_options",
       "needs 'stream'"},
      {{{"prompt", "p"}, {"stream", true}, {"stream_options", {{"continuous_usage_stats", 1}}}},
       "stream_options",
       "the booleans include_usage and continuous_usage_stats"},
      {prompt_with("priority", 3e9), "priority", "an integer from -2147483648 to 2147483647"},
      {prompt_with("user", 7), "user", "a string"},
      {prompt_with("prompt", json::array()), "prompt", "a non-empty list"},
      {prompt_with("prompt", {1, "two"}), "prompt", "a non-empty list"},
      {prompt_with("prompt", {257}), "prompt", "ids go from 0 to 256"},
      {json{{"model", "base"}}, "prompt", "required"},
      {json{{"prompt", std::vector<std::string>(100, "p")}, {"n", 3}}, "n",
       "300 is more than the 256"},
  };
  for (const auto& [body, param, rule] : cases) {
    const auto response = post(port, kCompletionsPath, body);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_EQ(response.error("param"), param) << body;
    EXPECT_NE(response.error().find(rule), std::string::npos) << body << response.body;
  }
  EXPECT_EQ(service.num_runs(), 0U);
}

TEST_F(FieldsTest, NamesTheFieldThatItDoesNotSupport) {
  start();
  const json chat{{"messages", {{{"role", "user"}, {"content", "x"}}}}};
  const struct {
    const char* path;
    const char* field;
    json value;
    const char* message;
  } cases[] = {
      {kChatPath, "functions", {{{"name", "f"}}}, "give 'tools'"},
      {kChatPath, "function_call", {{"name", "f"}}, "give 'tool_choice'"},
      {kChatPath, "truncation_side", "right", "only \"left\""},
      {kChatPath, "modalities", {"text", "audio"}, "only [\"text\"]"},
      {kChatPath, "reasoning_effort", "low", "chat_template_kwargs"},
      {kChatPath, "prompt", "p", "a field of /v1/completions"},
      {kChatPath, "echo", true, "a field of /v1/completions"},
      {kChatPath, "guided_decoding_backend", "outlines", "not supported yet"},
      {kCompletionsPath, "regex", "a", "give 'structured_outputs'"},
      {kCompletionsPath, "suffix", "end", "only \"\""},
      {kCompletionsPath, "best_of", 3, "only 2"},
      {kCompletionsPath, "use_beam_search", true, "only false"},
      {kCompletionsPath, "length_penalty", 0.5, "only 1"},
      {kCompletionsPath, "logits_processors", {"f"}, "only []"},
      {kCompletionsPath, "prompt_embeds", "AAAA", "not supported yet"},
      {kCompletionsPath, "prompt_logprobs", 1, "'echo'"},
      {kCompletionsPath, "messages", {{{"role", "user"}}}, "a field of /v1/chat/completions"},
      {kCompletionsPath, "top_logprobs", 3, "a field of /v1/chat/completions"},
  };
  for (const auto& [path, field, value, message] : cases) {
    json body = path == kChatPath ? chat : json{{"prompt", "p"}};
    body["n"] = 2;
    body[field] = value;
    const auto response = post(port, path, body);
    EXPECT_EQ(response.status, 400) << field;
    EXPECT_EQ(response.error("param"), field) << response.body;
    EXPECT_EQ(response.error("code"), "not_supported") << response.body;
    EXPECT_NE(response.error().find(message), std::string::npos) << response.body;
  }
  EXPECT_EQ(service.num_runs(), 0U);
}

TEST_F(FieldsTest, TakesFieldsThatChangeNothing) {
  start();
  json nulls{{"prompt", "p"}};
  for (const UnsupportedField& field : unsupported_fields()) nulls[field.name] = nullptr;
  EXPECT_EQ(post(port, kCompletionsPath, nulls).status, 200);
  const json completion = {{"prompt", "p"},
                           {"best_of", 2},
                           {"n", 2},
                           {"use_beam_search", false},
                           {"length_penalty", 1.0},
                           {"suffix", ""},
                           {"messages", json::array()},
                           {"add_special_tokens", true}};
  EXPECT_EQ(post(port, kCompletionsPath, completion).status, 200);
  const json chat = {{"messages", {{{"role", "user"}, {"content", "x"}}}},
                     {"response_format", {{"type", "text"}}},
                     {"tool_choice", "auto"},
                     {"parallel_tool_calls", true},
                     {"modalities", {"text"}},
                     {"service_tier", "auto"},
                     {"store", true},
                     {"metadata", {{"a", "b"}}},
                     {"echo", false}};
  EXPECT_EQ(post(port, kChatPath, chat).status, 200);
}

TEST_F(FieldsTest, RefusesEveryFieldOfAnotherType) {
  start();
  const json values[] = {
      true,          -7.25,          "text",         json::array({nullptr}),
      json::array(), json::object(), json{{"a", 1}}, json::array({json::array({"x"})})};
  struct Asked {
    unsigned where;
    const char* path;
    json body;
  };
  const Asked calls[] = {
      {kCompletions, kCompletionsPath, {{"prompt", "p"}}},
      {kChat,
       kChatPath,
       {{"messages", {{{"role", "user"}, {"content", "x"}}}}, {"logprobs", true}}},
      {kEmbeddings, "/v1/embeddings", {{"input", "x"}}},
      {kClassify, "/v1/classify", {{"input", "x"}}},
      {kScore, "/v1/score", {{"text_1", "x"}, {"text_2", "y"}}},
      {kRerank, "/v1/rerank", {{"query", "x"}, {"documents", {"y"}}}}};
  for (const RequestField& field : request_fields()) {
    const auto call = std::ranges::find_if(
        calls, [&](const Asked& each) { return (field.where & each.where) != 0; });
    ASSERT_NE(call, std::end(calls)) << field.name;
    for (const json& value : values) {
      json body = call->body;
      body[field.name] = value;
      const json type = schema_of(field).value("type", json("any"));
      const bool may_fit = (type == "boolean" && value.is_boolean()) ||
                           (type == "string" && value.is_string()) ||
                           (type == "array" && value.is_array()) ||
                           (type == "object" && value.is_object()) || type == "any";
      const auto response = post(port, call->path, body);
      if (may_fit) {
        EXPECT_NE(response.status / 100, 5) << field.name << " " << value << response.body;
      } else {
        EXPECT_EQ(response.status, 400) << field.name << " " << value << response.body;
        EXPECT_EQ(response.error("param"), field.name) << value;
        EXPECT_NE(response.error().find(rule_of(field)), std::string::npos) << response.body;
      }
    }
    json body = call->body;
    if (body.contains(field.name)) continue;
    body[field.name] = nullptr;
    EXPECT_EQ(post(port, call->path, body).status, 200) << field.name;
  }
}

TEST_F(FieldsTest, IgnoresUnknownFields) {
  start();
  EXPECT_EQ(post(port, kCompletionsPath, {{"prompt", "p"}, {"best_of", 1}, {"né\n", 2}}).status,
            200);
}

// The request options in docs/rest.md, listed by hand, so that one that is lost from the table is
// noticed.
TEST(RequestFields, AreThoseOfTheInterface) {
  std::istringstream names(
      "model prompt input encoding_format dimensions pooling normalize text_1 text_2 query "
      "use_activation top_n return_documents messages tools documents chat_template_kwargs "
      "chat_template add_generation_prompt continue_final_message max_tokens "
      "max_completion_tokens temperature top_p top_k min_p presence_penalty "
      "frequency_penalty repetition_penalty logit_bias seed stop stop_token_ids ignore_eos "
      "skip_special_tokens include_stop_str_in_output min_tokens n logprobs top_logprobs "
      "echo stream stream_options user priority allowed_token_ids bad_words "
      "response_format structured_outputs guided_json guided_regex guided_choice "
      "guided_grammar tool_choice parallel_tool_calls truncate_prompt_tokens adapters");
  const std::set<std::string> expected{std::istream_iterator<std::string>(names), {}};
  std::set<std::string> found;
  for (const RequestField& field : request_fields()) found.insert(field.name);
  EXPECT_EQ(found, expected);
}

TEST(UnsupportedFields, AreOnThePage) {
  std::stringstream read;
  read << std::ifstream("../docs/rest.md").rdbuf();
  const std::string page = read.str();
  for (const UnsupportedField& field : unsupported_fields()) {
    EXPECT_NE(page.find(std::string("`") + field.name + "`"), std::string::npos) << field.name;
  }
  for (const char* name : ignored_fields()) {
    EXPECT_NE(page.find(std::string("`") + name + "`"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace tandem
