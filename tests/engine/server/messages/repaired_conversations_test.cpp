// Conversations with content that their template does not know.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "engine/server/messages/conversation_rendering.h"
#include "engine/server/messages/request/chat_fields.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

// Returns the prompt, or "400: reason".
std::string prompt(const std::string& source, const std::string& messages, bool continues = false) {
  const auto chat = ChatTemplate::parse(source, Json::object());
  if (!chat) return chat.status().message();
  ChatInput input;
  Json value = Json::parse(messages);
  std::string reason;
  if (!take_messages(value, input, reason)) return "refused: " + reason;
  input.continue_final_message = continues;
  const auto text = render_conversation(**chat, input, {});
  return text ? *text : "400: " + text.status().message();
}

constexpr const char* kConcatenates =
    "{% for m in messages %}{{ '<' + m['role'] + '>' + m['content'] }}{% endfor %}";

TEST(RepairedConversations, HaveAnEmptyContentBesideToolCallsWhereTheTemplateWantsOne) {
  for (const char* content : {R"("content": null, )", "", R"("content": "", )"}) {
    const std::string messages =
        std::string(R"([{"role": "user", "content": "x"}, {"role": "assistant", )") + content +
        R"("tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}])";
    EXPECT_EQ(prompt(kConcatenates, messages), "<user>x<assistant>") << content;
  }
  // A template that checks whether there is content finds none.
  EXPECT_EQ(prompt("{% for m in messages %}{{ m.content is defined }}{% endfor %}",
                   R"([{"role": "assistant", "content": null, "tool_calls": []}])"),
            "False");
}

TEST(RepairedConversations, AreRefusedForTheReasonThatIsLeft) {
  EXPECT_EQ(prompt("{{ messages[0].content + 'x' }}{{ raise_exception('no calls') }}",
                   R"([{"role": "assistant", "content": null}])"),
            "400: no calls");
  EXPECT_THAT(prompt(kConcatenates, R"([{"role": "assistant", "content": null}])", true),
              HasSubstr("400: continue_final_message"));
}

std::string with_arguments(const std::string& member) {
  return R"([{"role": "user", "content": "x"}, {"role": "assistant", "content": "", "tool_calls":
      [{"function": {"name": "f")" +
         member + "}}]}]";
}

TEST(RepairedConversations, KeepArgumentsThatAreNoJsonAsTheModelWroteThem) {
  const std::string prints =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments }}"
      "{% endfor %}{% endfor %}";
  EXPECT_EQ(prompt(prints, with_arguments(R"(, "arguments": "{\"a\": \"cut")")), R"({"a": "cut)");
  EXPECT_EQ(prompt(prints, with_arguments(R"(, "arguments": "[1]")")), "[1]");
  EXPECT_EQ(prompt(prints, with_arguments(R"(, "arguments": "{\"a\": 1}")")), "{'a': 1}");
}

TEST(RepairedConversations, HaveEmptyArgumentsWhereTheTemplateWalksOverThem) {
  const std::string walks =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name }}("
      "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %})"
      "{% endfor %}{% endfor %}";
  EXPECT_EQ(prompt(walks, with_arguments(R"(, "arguments": "{\"a\": 1}")")), "f(a=1)");
  for (const char* arguments :
       {"", R"(, "arguments": null)", R"(, "arguments": "")", R"(, "arguments": "null")",
        R"(, "arguments": "{\"a\": ")", R"(, "arguments": "\"x\"")", R"(, "arguments": [1])"}) {
    EXPECT_EQ(prompt(walks, with_arguments(arguments)), "f()") << arguments;
  }
}

constexpr const char* kKnowsRoles =
    "{% for m in messages %}{% if m.role == 'system' %}[S]{{ m.content }}"
    "{% elif m.role == 'user' %}[U]{{ m.content }}{% elif m.role == 'tool' %}[T]{{ m.content | "
    "tojson }}{% elif m.role == 'assistant' %}[A]{{ m.content.split('</think>')[-1] }}"
    "{% endif %}{% endfor %}";

std::string conversation(const std::string& role, const std::string& content) {
  return Json::array(
             {{{"role", role}, {"content", content}}, {{"role", "user"}, {"content", "hi"}}})
      .dump();
}

TEST(RepairedConversations, AreRenderedWithDevelopersAsSystemWhereTheyAreLost) {
  EXPECT_EQ(prompt(kKnowsRoles, conversation("developer", "hi")), "[S]hi[U]hi");
  const std::string knows_them = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
  EXPECT_EQ(prompt(knows_them, conversation("developer", "Be brief.")),
            "[developer]Be brief.[user]hi");
  const std::string refuses_them =
      "{% for m in messages %}{% if m.role not in ['system', 'user'] %}"
      "{{ raise_exception('roles!') }}{% endif %}[{{ m.role }}]{% endfor %}"
      "{% for m in messages %}{{ m.content }}{% endfor %}";
  EXPECT_EQ(prompt(refuses_them, conversation("developer", "a")), "[system][user]ahi");
  EXPECT_EQ(prompt(refuses_them, conversation("other", "a")), "400: roles!");
}

TEST(RepairedConversations, AreRefusedWhereAMessageWouldVanish) {
  for (const char* role : {"System", "assistent", "function", "banana"}) {
    EXPECT_THAT(prompt(kKnowsRoles, conversation(role, "hi")), HasSubstr("400: it prints nothing of"
                                                                         " messages[0]"))
        << role;
  }
  EXPECT_THAT(prompt(kKnowsRoles, conversation(std::string(100'000, 'x'), "hi")),
              HasSubstr("whose role is a long text"));
  const std::string first_system =
      "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
      "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}";
  EXPECT_EQ(prompt(first_system, conversation("system", "hi")), "hihi");
  EXPECT_THAT(prompt(first_system, R"([{"role": "user", "content": "a"},
                                       {"role": "system", "content": "hi"}])"),
              HasSubstr("messages[1], whose role is \"system\""));
}

TEST(RepairedConversations, MayHaveRolesThatTheTemplatePrints) {
  EXPECT_EQ(prompt(kConcatenates, conversation("critic", "no")), "<critic>no<user>hi");
  EXPECT_EQ(prompt(kKnowsRoles, conversation("tool", "a \"b\"")), R"([T]"a \"b\""[U]hi)");
  EXPECT_EQ(prompt(kKnowsRoles, conversation("banana", " \n")), "[U]hi");
  const std::string parts = R"([{"role": "tool", "content": [{"type": "text", "text": "one"}]}])";
  EXPECT_EQ(prompt("{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}"
                   "{% endfor %}",
                   parts),
            "one");
  EXPECT_EQ(prompt(kKnowsRoles, parts), "[T]\"one\"");
}

TEST(RepairedConversations, MayLoseWhatAssistantsThought) {
  EXPECT_EQ(prompt(kKnowsRoles, conversation("assistant", "so</think>")), "[A][U]hi");
  EXPECT_EQ(prompt("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}",
                   conversation("assistant", "hi")),
            "hi");
}

}  // namespace
}  // namespace tandem
