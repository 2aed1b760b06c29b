#include "tools/bench/serve/answer_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kStream =
    ": a comment\n\n"
    "data: {\"choices\":[{\"text\":\"one\",\"finish_reason\":null}]}\n\n"
    "event: x\r\ndata:{\"choices\":[{\"text\":\"\",\"finish_reason\":null}]}\r\n\r\n"
    "data: {\"choices\":[{\"text\":\" two\",\"finish_reason\":\"length\"}],"
    "\"tandem\":{\"adapter_tier\":\"host\"}}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n"
    "data: [DONE]\n\n";

TimePoint at_ms(int ms) {
  return TimePoint{} + std::chrono::milliseconds(ms);
}

TEST(AnswerReader, NotesWhenTokensCome) {
  AnswerReader reader(Dialect::completions, true);
  const std::size_t second = kStream.find("event:");
  const std::size_t third = kStream.find("data: {\"choices\":[{\"text\":\" two");
  reader.take(kStream.substr(0, second), at_ms(10));
  EXPECT_FALSE(reader.answer().finished);
  reader.take(kStream.substr(second, third - second), at_ms(13));
  reader.take(kStream.substr(third), at_ms(20));
  const AnswerTimes& answer = reader.answer();
  EXPECT_EQ(answer.first, at_ms(10));
  EXPECT_EQ(answer.last, at_ms(20));
  EXPECT_THAT(answer.gaps_ms, ElementsAre(3, 7));
  EXPECT_EQ(answer.events, 3);  // one of them has no text, only a part of a character
  EXPECT_EQ(answer.text, "one two");
  EXPECT_EQ(answer.prompt_tokens, 7);
  EXPECT_EQ(answer.output_tokens, 3);
  EXPECT_EQ(answer.adapter_tier, "host");
  EXPECT_TRUE(answer.finished);
  EXPECT_EQ(answer.mistake, "");
}

TEST(AnswerReader, TakesNoChunkThatSaysNothingForTheFirstToken) {
  const std::pair<Dialect, const char*> cases[] = {
      {Dialect::completions, R"("text":"{}")"}, {Dialect::chat, R"("delta":{{"content":"{}"}})"}};
  for (const auto& [dialect, form] : cases) {
    AnswerReader reader(dialect, true);
    const auto event = [form = form](std::string_view text) {
      return fmt::format("data: {{\"choices\":[{{{},\"finish_reason\":null}}]}}\n\n",
                         fmt::format(fmt::runtime(form), text));
    };
    reader.take(event(""), at_ms(10));
    reader.take("data: {\"choices\":[{\"delta\":{},\"finish_reason\":null}]}\n\n", at_ms(20));
    EXPECT_EQ(reader.answer().events, 0);
    reader.take(event("one"), at_ms(30));
    EXPECT_EQ(reader.answer().first, at_ms(30));
    EXPECT_EQ(reader.answer().events, 1);
  }
}

TEST(AnswerReader, ReadsTheSameInWhateverPiecesItComes) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 200; ++round) {
    AnswerReader reader(Dialect::completions, true);
    for (std::size_t at = 0; at < kStream.size();) {
      const std::size_t size = 1 + random() % 40;
      reader.take(kStream.substr(at, size), at_ms(1));
      at += size;
    }
    EXPECT_EQ(reader.answer().text, "one two");
    EXPECT_EQ(reader.answer().events, 3);
    EXPECT_TRUE(reader.answer().finished);
    EXPECT_EQ(reader.answer().mistake, "");
  }
}

TEST(AnswerReader, AChatsRoleIsNoToken) {
  AnswerReader reader(Dialect::chat, true);
  reader.take("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
              at_ms(1));
  EXPECT_EQ(reader.answer().events, 0);
  reader.take("data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n", at_ms(2));
  reader.take("data: {\"choices\":[{\"delta\":{\"content\":\"yes\"}}]}\n\n", at_ms(4));
  reader.take("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", at_ms(9));
  EXPECT_EQ(reader.answer().first, at_ms(2));
  EXPECT_EQ(reader.answer().last, at_ms(4));
  EXPECT_EQ(reader.answer().text, "hmyes");
  EXPECT_TRUE(reader.answer().finished);
}

TEST(AnswerReader, SaysWhatIsWrongWithAnEvent) {
  const auto mistake = [](std::string_view bytes) {
    AnswerReader reader(Dialect::completions, false);
    reader.take(bytes, at_ms(1));
    return reader.answer().mistake;
  };
  EXPECT_THAT(mistake("data: {\"choices\n"), HasSubstr("broken event"));
  EXPECT_THAT(mistake("data: {\"choices\":[7]}\n"), HasSubstr("broken event"));
  EXPECT_EQ(mistake("data: {\"error\":{\"message\":\"out of memory\"}}\n"), "out of memory");
  EXPECT_EQ(mistake("data: {\"error\":null,\"choices\":[]}\n"), "");
  EXPECT_THAT(mistake("data: " + std::string(5U << 20, 'x')), HasSubstr("longer"));
}

TEST(ErrorText, TakesTheMessageOfAnErrorOrTheBeginning) {
  EXPECT_EQ(error_text(R"({"error":{"message":"no such model","code":404}})"), "no such model");
  EXPECT_EQ(error_text(R"({"message":"late"})"), "late");
  EXPECT_EQ(error_text(R"({"error":"busy"})"), "busy");
  EXPECT_EQ(error_text("<html>\nBad gateway"), "<html> Bad gateway");
  EXPECT_LE(error_text(std::string(5000, 'x')).size(), 200U);
}

}  // namespace
}  // namespace tandem
