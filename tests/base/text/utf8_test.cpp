#include "base/text/utf8.h"

#include <gtest/gtest.h>

#include <utility>

namespace tandem {
namespace {

TEST(Utf8, FindsTheFirstByteThatBeginsNoCharacter) {
  EXPECT_EQ(utf8::find_invalid("plain é € 😀"), std::string::npos);
  const std::pair<std::string, std::size_t> cases[] = {
      {"\x80", 0},
      {"a\xC1\xBF", 1},
      {"\xE0\x9F\xBF", 0},
      {"\xED\xA0\x80", 0},
      {"\xF0\x8F\xBF\xBF", 0},
      {"\xF4\x90\x80\x80", 0},
      {"\xF5\x80\x80\x80", 0},
      {"é\xE2\x82", 2},
      {"twelve ascii\xFF", 12},
  };
  for (const auto& [text, at] : cases) EXPECT_EQ(utf8::find_invalid(text), at);
}

TEST(Utf8, DecodesPiecesCutAnywhereAsTheWhole) {
  const std::string whole =
      "a\xE2\x82\xAC\xF0\x9F\x98\x80\xE2\x82z\xC1\xED\xA0\x80\xC3\xA9\xF0\x9F";
  std::string expected;
  utf8::LossyDecoder at_once;
  at_once.push(whole, expected);
  at_once.finish(expected);
  EXPECT_TRUE(utf8::valid(expected));
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    std::string got;
    utf8::LossyDecoder decoder;
    decoder.push(whole.substr(0, cut), got);
    decoder.push(whole.substr(cut), got);
    decoder.finish(got);
    EXPECT_EQ(got, expected) << cut;
  }
}

TEST(Utf8, ReadsBackEveryCharacterItWrites) {
  for (const char32_t c :
       {0x00U, 0x7FU, 0x80U, 0x7FFU, 0x800U, 0xD7FFU, 0xE000U, 0xFFFFU, 0x10000U, 0x10FFFFU}) {
    std::string text = "x";
    utf8::append(text, c);
    EXPECT_TRUE(utf8::valid(text));
    EXPECT_EQ(utf8::previous(text, text.size()), 1U);
    std::size_t pos = 1;
    EXPECT_EQ(utf8::next(text, pos), c);
    EXPECT_EQ(pos, text.size());
  }
}

}  // namespace
}  // namespace tandem
