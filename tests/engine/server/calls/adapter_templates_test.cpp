// Chats with adapters that have their own chat template, over a real engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/engine/server/cluster_fixture.h"
#include "tests/support/temp_dir.h"

namespace tandem::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class AdapterTemplatesTest : public ::testing::Test {
 protected:
  // Copies an adapter and adds this file beside its weights.
  std::string folder_with(const std::string& file, const std::string& text) {
    const fs::path folder = dir_.path() / std::to_string(++folders_);
    fs::copy("data/demo-llama/adapters/python", folder);
    std::ofstream(folder / file) << text;
    return folder.string();
  }
  Status load(const std::string& folder) {
    return rest_.engine->engine->load_adapter("own", folder, true, false);
  }
  // Returns the prompt of a chat, or the error.
  std::string prompt(const std::string& model, const json& more = json::object()) {
    json body{{"model", model}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
    body.update(more);
    const HttpResponse tokens = rest_.post("/tokenize", body);
    if (tokens.status != 200)
      return json::parse(tokens.body)["error"]["message"].get<std::string>();
    const HttpResponse text =
        rest_.post("/detokenize", {{"tokens", json::parse(tokens.body)["tokens"]}});
    return json::parse(text.body)["prompt"].get<std::string>();
  }

  testing::TempDir dir_;
  int folders_ = 0;
  RestEngine rest_;
};

TEST_F(AdapterTemplatesTest, RenderTheChatsOfTheirAdapterAlone) {
  const std::string of_base = prompt("base");
  ASSERT_TRUE(
      load(folder_with("chat_template.jinja",
                       "{{ bos_token }}{% for m in messages %}[{{ m.content }}]{% endfor %}"))
          .ok());
  EXPECT_EQ(prompt("own"), "<|begin|>[hi]");
  EXPECT_EQ(prompt("base"), of_base);
  EXPECT_EQ(prompt("python"), of_base);
  const HttpResponse answer = settled(
      rest_.post("/v1/chat/completions", {{"model", "own"},
                                          {"messages", {{{"role", "user"}, {"content", "hi"}}}},
                                          {"max_tokens", 1}}));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto tokens = json::parse(
      rest_.post("/tokenize", {{"prompt", "<|begin|>[hi]"}, {"add_special_tokens", false}})
          .body)["count"];
  EXPECT_EQ(json::parse(answer.body)["usage"]["prompt_tokens"], tokens);
}

TEST_F(AdapterTemplatesTest, AreReadAgainWhenTheAdapterIsLoadedAgain) {
  ASSERT_TRUE(load(folder_with("tokenizer_config.json", R"({"chat_template": "first"})")).ok());
  EXPECT_EQ(prompt("own"), "first");
  ASSERT_TRUE(rest_.engine->engine->unload_adapter("own").ok());
  ASSERT_TRUE(load(folder_with("tokenizer_config.json", R"({"chat_template": "second"})")).ok());
  EXPECT_EQ(prompt("own"), "second");
}

TEST_F(AdapterTemplatesTest, TellChatsAloneWhatIsTheMatterWithThem) {
  ASSERT_TRUE(load(folder_with("chat_template.jinja", "{% include 'x' %}")).ok());
  EXPECT_THAT(prompt("own"), HasSubstr("tag \"include\" is not supported"));
  EXPECT_EQ(
      settled(rest_.post("/v1/completions", {{"model", "own"}, {"prompt", "x"}, {"max_tokens", 1}}))
          .status,
      200);
}

TEST_F(AdapterTemplatesTest, AreTheBasesWhereTheirFilesCannotBeRead) {
  const std::string of_base = prompt("base");
  ASSERT_TRUE(load(folder_with("tokenizer_config.json", "{")).ok());
  EXPECT_EQ(prompt("own"), of_base);
}

TEST_F(AdapterTemplatesTest, AreNotReadThroughALinkThatLeadsOutOfTheFolder) {
  const std::string of_base = prompt("base");
  std::ofstream(dir_.path() / "outside.jinja") << "outside";
  const std::string folder = folder_with("note", "");
  fs::create_symlink(dir_.path() / "outside.jinja", fs::path(folder) / "chat_template.jinja");
  ASSERT_TRUE(load(folder).ok());
  EXPECT_EQ(prompt("own"), of_base);
}

}  // namespace
}  // namespace tandem::test
