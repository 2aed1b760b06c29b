#include "engine/tokenizer/jinja/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "engine/tokenizer/jinja/chat_templates.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/support/test_seed.h"

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
  ChatInput input;
  input.messages = variables.value("messages", Json::array());
  input.variables = variables;
  input.add_generation_prompt = variables.value("add_generation_prompt", false);
  return (*parsed)->render(input);
}

TEST(ChatTemplate, RendersTheDemoModelsConversations) {
  const auto all = ChatTemplates::load("data/demo-llama");
  ASSERT_TRUE(all.ok()) << all.status().message();
  const auto chat = (*all)->choose(false);
  ASSERT_TRUE(chat.ok()) << chat.status().message();
  const auto tokenizer = Tokenizer::load("data/demo-llama");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const Json golden = read_json("data/golden.json");
  ASSERT_EQ(golden.at("chat").size(), 4U);
  for (const Json& c : golden.at("chat")) {
    const auto text =
        (*chat)->render({.messages = c.at("messages"),
                         .add_generation_prompt = c.at("add_generation_prompt").get<bool>()});
    ASSERT_TRUE(text.ok()) << text.status().message();
    EXPECT_EQ(*text, c.at("text").get<std::string>());
    const auto ids = (*tokenizer)->encode(*text, false);
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(*ids, c.at("ids").get<std::vector<TokenId>>());
  }
}

// The expected texts were rendered with Jinja itself by data/chat/make.py.
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

std::string failure(const std::string& source, const Json& variables = Json::object()) {
  const auto text = render(source, variables);
  return text.ok() ? "(rendered) " + *text : text.status().message();
}

TEST(ChatTemplate, NamesWhatItDoesNotSupportAndTheLine) {
  EXPECT_THAT(failure("a\n{{ x | zip }}"), HasSubstr("line 2: filter \"zip\" is not supported"));
  EXPECT_THAT(failure("{{ x is odder }}"), HasSubstr("test \"odder\" is not supported"));
  EXPECT_THAT(failure("\n\n{% include 'x' %}"), HasSubstr("line 3: tag \"include\""));
  EXPECT_THAT(failure("{{ 'x'.encode() }}"), HasSubstr("str.encode is not supported"));
  EXPECT_THAT(failure("{% call x %}{% endcall %}"), HasSubstr("needs a call"));
  EXPECT_THAT(failure("{{ '%q' % 1 }}"), HasSubstr("% format"));
  EXPECT_THAT(failure("{{ '{:q}'.format(1) }}"), HasSubstr("\"q\" is not supported"));
}

TEST(ChatTemplate, IsBoundedInStepsTextAndDepth) {
  const std::string nested_loops =
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
  EXPECT_THAT(failure(nested_loops), HasSubstr("steps"));
  EXPECT_THAT(failure("{{ 'x' * 100000000000 }}"), HasSubstr("too long"));
  EXPECT_THAT(failure("{{ '%999999999d' % 1 }}{{ '{:>99999999}'.format(1) }}"),
              HasSubstr("width or precision"));
  EXPECT_THAT(failure("{{ 'x'.ljust(100000000000) }}"), HasSubstr("more than"));
  EXPECT_THAT(failure("{{ [1] | batch(100000000000, 2) }}"), HasSubstr("more than"));
  EXPECT_THAT(failure("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
              HasSubstr("deeply"));
  EXPECT_THAT(failure("{% set n = namespace(s='ab') %}{% for i in range(99) %}"
                      "{% set n.s = n.s + n.s %}{% endfor %}"),
              HasSubstr("more than"));
  EXPECT_THAT(failure("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("deeply"));
  EXPECT_THAT(failure("{% set n = namespace(l=[]) %}{% for i in range(999) %}"
                      "{% set n.l = [n.l] %}{% endfor %}"),
              HasSubstr("deeply"));
  EXPECT_THAT(failure("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"),
              HasSubstr("deeply"));
  std::string sum = "{{ 1";
  for (int i = 0; i < 5000; ++i) sum += "+1";
  EXPECT_THAT(failure(sum + " }}"), HasSubstr("deeply"));
  std::string ifs;
  for (int i = 0; i < 5000; ++i) ifs += "{% if 1 %}";
  EXPECT_THAT(failure(ifs), HasSubstr("deeply"));
  Json deep = 1;
  for (int i = 0; i < 500; ++i) deep = Json::array({deep});
  EXPECT_THAT(failure("{{ x }}", {{"x", deep}}), HasSubstr("deeply"));
}

TEST(ChatTemplate, LeavesNothingBehindWhenValuesHoldOneAnother) {
  const Json none = Json::object();
  EXPECT_EQ(
      failure("{% set n = namespace() %}{% set n.n = n %}"
              "{% macro f() %}{{ n.x }}{% endmacro %}{% set n.f = f %}{% set n.x = 1 %}{{ f() }}",
              none),
      "(rendered) 1");
}

TEST(ChatTemplate, KnowsTheDate) {
  const auto text =
      render("{{ strftime_now('%Y') | int > 2000 }}{{ strftime_now('') }}", Json::object());
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(*text, "True");
}

TEST(ChatTemplate, KeepsTheOrderOfMembersInTools) {
  EXPECT_EQ(
      failure("{{ tools | tojson }}", Json::parse(R"({"tools": {"z": 1, "a": {"y": 2, "b": 3}}})")),
      R"((rendered) {"z": 1, "a": {"y": 2, "b": 3}})");
}

TEST(ChatTemplate, SurvivesDamagedTemplates) {
  const Json golden = read_json("data/chat/cases.json");
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 600; ++round) {
    const Json& c = golden.at("cases").at(random() % golden.at("cases").size());
    auto source = golden.at("templates").at(c.at("template").get<std::size_t>()).get<std::string>();
    for (unsigned n = 1 + random() % 3; n > 0 && !source.empty(); --n) {
      const std::size_t at = random() % source.size();
      if (random() % 2 == 0) {
        source.erase(at, 1 + random() % 4);
      } else {
        source[at] = "{}%-|.()[]'\"#:=~ 0ax\\"[random() % 21];
      }
    }
    const Json& variables = golden.at("variables").at(c.at("variables").get<std::size_t>());
    (void)failure(source, variables);
  }
}

}  // namespace
}  // namespace tandem
