#include "engine/tokenizer/jinja/chat_templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using Files = std::map<std::string, std::string>;

ChatTemplates::ReadFile reader(const Files& files) {
  return [&files](const std::string& name) -> Result<std::string> {
    const auto found = files.find(name);
    if (found == files.end()) return error(StatusCode::not_found, "no {}", name);
    return found->second;
  };
}

// Renders a chat with the folder's template; returns the text or the error.
std::string prompt(const Files& files, bool with_tools = false,
                   const Json& tokens = Json::object()) {
  const auto all = ChatTemplates::load(reader(files), tokens);
  if (!all) return all.status().message();
  const auto chosen = (*all)->choose(with_tools);
  if (!chosen) return chosen.status().message();
  ChatInput input;
  input.messages.push_back({{"role", "user"}, {"content", "hi"}});
  const auto text = (*chosen)->render(input);
  return text ? *text : text.status().message();
}

constexpr const char* kNamed = R"({"chat_template": [
    {"name": "rag", "template": "rag"}, {"name": "tool_use", "template": "tools"},
    {"name": "default", "template": "plain"}]})";

TEST(ChatTemplates, RenderChatsWithToolsByTheTemplateForThem) {
  EXPECT_EQ(prompt({{"tokenizer_config.json", kNamed}}), "plain");
  EXPECT_EQ(prompt({{"tokenizer_config.json", kNamed}}, true), "tools");
  const Files files = {{"chat_template.jinja", "plain file"},
                       {"additional_chat_templates/tool_use.jinja", "tools file"}};
  EXPECT_EQ(prompt(files), "plain file");
  EXPECT_EQ(prompt(files, true), "tools file");
}

TEST(ChatTemplates, TakeFilesOfTheirOwnBeforeTheList) {
  const Files one_file = {{"tokenizer_config.json", kNamed}, {"chat_template.jinja", "file"}};
  EXPECT_EQ(prompt(one_file), "file");
  EXPECT_EQ(prompt(one_file, true), "file");
}

TEST(ChatTemplates, RenderChatsWithToolsByTheOnlyTemplate) {
  EXPECT_EQ(prompt({{"tokenizer_config.json", R"({"chat_template": "one"})"}}, true), "one");
}

TEST(ChatTemplates, SayThatThereIsNoneOfTheName) {
  const Files files = {
      {"tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "t"}]})"}};
  EXPECT_EQ(prompt(files, true), "t");
  EXPECT_THAT(prompt(files), HasSubstr("none named \"default\""));
}

TEST(ChatTemplates, AreNotFoundInAFolderWithoutAny) {
  for (const char* config : {"{}", R"({"chat_template": null})", R"({"chat_template": []})"}) {
    const Files files = {{"tokenizer_config.json", config}};
    const auto all = ChatTemplates::load(reader(files));
    ASSERT_FALSE(all.ok()) << config;
    EXPECT_EQ(all.status().code(), StatusCode::not_found) << config;
  }
}

TEST(ChatTemplates, AreThereWhereOneOfThemCannotBeParsed) {
  const Files files = {{"chat_template.jinja", "plain"},
                       {"additional_chat_templates/tool_use.jinja", "\n{% include 'x' %}"}};
  EXPECT_EQ(prompt(files), "plain");
  EXPECT_THAT(prompt(files, true), HasSubstr("tool_use.jinja: chat template, line 2: tag "
                                             "\"include\" is not supported"));
  const auto all = ChatTemplates::load(reader(files));
  ASSERT_TRUE(all.ok());
  EXPECT_FALSE((*all)->problem().ok());
}

TEST(ChatTemplates, RefuseATemplateThatIsGivenAndCannotBeParsed) {
  const Files files = {{"tokenizer_config.json", R"({"bos_token": "<|begin|>"})"}};
  const ChatTemplates::ReadFile demo = reader(files);
  EXPECT_FALSE(ChatTemplates::with_template("{% include 'x' %}", demo).ok());
  const auto all = ChatTemplates::with_template("{{ bos_token }}", demo);
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ((*all)->choose(true).value()->render({}).value(), "<|begin|>");
}

TEST(ChatTemplates, SeeTheSpecialTokensOfTheMapWhereTheConfigHasNone) {
  const Files files = {
      {"chat_template.jinja", "{{ bos_token }}|{{ eos_token }}|{{ pad_token }}|{{ unk_token }}"},
      {"tokenizer_config.json", R"({"eos_token": {"content": "</s>"}, "bos_token": null})"},
      {"special_tokens_map.json",
       R"({"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "<other>"})"}};
  EXPECT_EQ(prompt(files), "<s>|</s>||");
  EXPECT_EQ(prompt(files, false, {{"pad_token", "<base>"}, {"bos_token", "<base>"}}),
            "<s>|</s>|<base>|");
}

TEST(ChatTemplates, TellWhetherTheyAreTheSame) {
  const auto load = [](const Files& files) { return ChatTemplates::load(reader(files)).value(); };
  const auto one = load({{"chat_template.jinja", "x"}});
  EXPECT_TRUE(one->same_as(*load({{"tokenizer_config.json", R"({"chat_template": "x"})"}})));
  EXPECT_FALSE(one->same_as(*load({{"chat_template.jinja", "y"}})));
  EXPECT_FALSE(one->same_as(
      *load({{"chat_template.jinja", "x"}, {"special_tokens_map.json", R"({"bos_token": "b"})"}})));
}

}  // namespace
}  // namespace tandem
