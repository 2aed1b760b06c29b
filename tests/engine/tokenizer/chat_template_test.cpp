#include "engine/tokenizer/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/tokenizer/tokenizer.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

Json read_json(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

Result<std::string> render(const std::string& source, const Json& variables) {
  auto parsed = ChatTemplate::parse(source, Json::object());
  if (!parsed) return parsed.status();
  const bool has_messages = variables.contains("messages");
  return (*parsed)->render(has_messages ? variables.at("messages") : Json::array(),
                           variables.value("add_generation_prompt", false), variables);
}

TEST(ChatTemplate, RendersTheDemoModelsConversations) {
  const auto chat = ChatTemplate::load("data/demo-llama");
  ASSERT_TRUE(chat.ok()) << chat.status().message();
  const auto tokenizer = Tokenizer::load("data/demo-llama");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const Json golden = read_json("data/golden.json");
  ASSERT_EQ(golden.at("chat").size(), 4U);
  for (const Json& c : golden.at("chat")) {
    const auto text = (*chat)->render(c.at("messages"), c.at("add_generation_prompt").get<bool>(),
                                      Json::object());
    ASSERT_TRUE(text.ok()) << text.status().message();
    EXPECT_EQ(*text, c.at("text").get<std::string>());
    const auto ids = (*tokenizer)->encode(*text, false);
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(*ids, c.at("ids").get<std::vector<TokenId>>());
  }
}

// data/chat/make.py rendered these with Jinja itself.
TEST(ChatTemplate, RendersWhatJinjaRenders) {
  const Json golden = read_json("data/chat/cases.json");
  ASSERT_GT(golden.at("cases").size(), 400U);
  for (const Json& c : golden.at("cases")) {
    const auto& source = golden.at("templates").at(c.at("template").get<std::size_t>());
    const auto& variables = golden.at("variables").at(c.at("variables").get<std::size_t>());
    SCOPED_TRACE(source.get<std::string>());
    const auto text = render(source.get<std::string>(), variables);
    if (c.contains("text")) {
      ASSERT_TRUE(text.ok()) << text.status().message();
      EXPECT_EQ(*text, c.at("text").get<std::string>());
    } else if (c.at("error").is_string()) {
      ASSERT_FALSE(text.ok());
      EXPECT_EQ(text.status().message(), c.at("error").get<std::string>());
    } else {
      EXPECT_FALSE(text.ok()) << *text;
    }
  }
}

}  // namespace
}  // namespace tandem
