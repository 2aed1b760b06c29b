#include "engine/continuation/output_text.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace tandem {
namespace {

const Tokenizer& demo_tokenizer() {
  static const auto tokenizer = Tokenizer::load("data/demo-llama").value();
  return *tokenizer;
}

// Pushes the tokens of `text` and records the text shown after each of them.
struct Shown {
  std::vector<std::string> pieces;
  std::string all;
  std::optional<std::string> stopped_by;
};

Shown show(const std::string& text, const std::vector<std::string>& stops,
           bool include_stop = false, std::size_t min_tokens = 0) {
  OutputText output(demo_tokenizer(), true, stops, include_stop);
  Shown shown;
  const std::vector<TokenId> ids = demo_tokenizer().encode(text, false).value();
  for (std::size_t i = 0; i < ids.size() && !output.stopped_by(); ++i) {
    shown.pieces.push_back(output.push(ids[i], i + 1 >= min_tokens));
  }
  shown.pieces.push_back(output.flush());
  for (const std::string& piece : shown.pieces) shown.all += piece;
  shown.stopped_by = output.stopped_by();
  return shown;
}

TEST(OutputText, ShowsEverythingWithoutStops) {
  const std::string text = "def main():\n    return 'caf\xc3\xa9 \xf0\x9f\x9a\xb2'\n";
  const Shown shown = show(text, {});
  EXPECT_EQ(shown.all, text);
  EXPECT_FALSE(shown.stopped_by);
}

TEST(OutputText, KeepsTheSpecialTokensThatItIsToldTo) {
  const TokenId user = demo_tokenizer().token_to_id("<|user|>").value();
  const TokenId assistant = demo_tokenizer().token_to_id("<|assistant|>").value();
  const auto say = [&](bool skip, const std::vector<TokenId>& kept) {
    OutputText output(demo_tokenizer(), skip, {}, false, kept);
    std::string shown;
    for (const TokenId id : {user, assistant}) shown += output.push(id, true);
    return shown + output.flush();
  };
  EXPECT_EQ(say(true, {}), "");
  EXPECT_EQ(say(true, {user}), "<|user|>");
  EXPECT_EQ(say(false, {}), "<|user|><|assistant|>");
}

// Shows a demo answer that contains <|user|>, which is skipped, and what ended it.
Shown show_with_user(const std::vector<std::string>& stops, bool include_stop = false,
                     bool stops_count = true) {
  OutputText output(demo_tokenizer(), true, stops, include_stop);
  const std::vector<TokenId> ids = demo_tokenizer().encode("one two<|user|>\nthree", false).value();
  Shown shown;
  for (const TokenId id : ids) shown.all += output.push(id, stops_count);
  shown.all += output.flush();
  shown.stopped_by = output.stopped_by();
  return shown;
}

TEST(OutputText, StopsAtTheNameOfASpecialTokenThatItSkips) {
  for (const std::string stop : {"<|user|>", "<|user|>\nth", "wo<|user|>"}) {
    const Shown shown = show_with_user({stop});
    EXPECT_EQ(shown.all, stop.starts_with("wo") ? "one t" : "one two") << stop;
    EXPECT_EQ(shown.stopped_by, stop);
    EXPECT_EQ(show_with_user({stop}, true).all,
              stop.starts_with("wo") ? "one two<|user|>" : "one two" + stop);
  }
}

TEST(OutputText, ShowsNothingOfTheNamesThatItLooksFor) {
  EXPECT_EQ(show_with_user({"<|user|>\nfour"}).all, "one two\nthree");
  EXPECT_EQ(show_with_user({"|>\nthre!", "<|user|>x"}).all, "one two\nthree");
  EXPECT_EQ(show_with_user({"<|user|>"}, false, false).all, "one two\nthree");
  EXPECT_EQ(show_with_user({"<|assistant|>"}).all, "one two\nthree");
}

TEST(OutputText, FindsStopsThatBeginWithTheSpaceBehindAPrompt) {
  std::ifstream file("data/tokenizers/llama2.json", std::ios::binary);
  const auto tokenizer =
      Tokenizer::parse(std::string{std::istreambuf_iterator<char>(file), {}}).value();
  const std::vector<TokenId> prompt = tokenizer->encode("of", true).value();
  const TokenId the = tokenizer->token_to_id("\xE2\x96\x81the").value();
  OutputText output(*tokenizer, true, {" the"}, false, {}, prompt);
  EXPECT_EQ(output.push(the, true), "");
  EXPECT_EQ(output.stopped_by(), " the");
}

TEST(OutputText, StopsInsideAToken) {
  const Shown shown = show("one two three", {"wo thr"});
  EXPECT_EQ(shown.all, "one t");
  EXPECT_EQ(shown.stopped_by, "wo thr");
}

TEST(OutputText, KeepsTheStopWhenAsked) {
  EXPECT_EQ(show("one two three", {"wo thr"}, true).all, "one two thr");
}

TEST(OutputText, ReleasesWhatOnlyLookedLikeAStop) {
  const Shown shown = show("aab aab aac", {"aab aad"});
  EXPECT_EQ(shown.all, "aab aab aac");
}

TEST(OutputText, LetsStopsPassBeforeTheLeastNumberOfTokens) {
  const std::string text = "stop and stop and stop";
  EXPECT_EQ(show(text, {"stop"}).all, "");
  const std::size_t all_tokens = demo_tokenizer().encode(text, false).value().size();
  EXPECT_EQ(show(text, {"stop"}, false, all_tokens + 1).all, text);
}

TEST(OutputText, EndsAtTheEarliestOfSeveralStops) {
  const Shown shown = show("alpha beta gamma", {"gamma", "beta"});
  EXPECT_EQ(shown.all, "alpha ");
  EXPECT_EQ(shown.stopped_by, "beta");
}

TEST(OutputText, CutsLikeAStringSearchOverRandomTextsAndStops) {
  const unsigned seed = 99;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::vector<std::string> letters = {"a",  "b",  " ", "\n", "\xc3\xa9", "\xe6\xbc\xa2",
                                            "ab", "ba "};
  const auto make = [&](std::size_t most) {
    std::string text;
    for (std::size_t i = 1 + random() % most; i > 0; --i)
      text += letters[random() % letters.size()];
    return text;
  };
  for (int round = 0; round < 500; ++round) {
    const std::string text = make(40);
    const std::vector<std::string> stops = {make(4), make(6)};
    const std::size_t cut = std::min(text.find(stops[0]), text.find(stops[1]));
    const Shown shown = show(text, stops);
    ASSERT_EQ(shown.all, text.substr(0, cut)) << "round " << round;
    ASSERT_EQ(shown.stopped_by.has_value(), cut != std::string::npos);
    for (const std::string& piece : shown.pieces) {
      // No piece begins inside a character.
      ASSERT_TRUE(piece.empty() || (static_cast<unsigned char>(piece[0]) & 0xC0U) != 0x80U);
    }
  }
}

}  // namespace
}  // namespace tandem
