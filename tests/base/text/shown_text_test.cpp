#include "base/text/shown_text.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(ShownText, KeepsWhatMayBeShown) {
  EXPECT_EQ(shown_text("Intel(R) Xeon(R) <9004> \"x\" \u00e9\U0001F600"),
            "Intel(R) Xeon(R) <9004> \"x\" \u00e9\U0001F600");
  EXPECT_EQ(shown_text(""), "");
}

TEST(ShownText, ReplacesWhatMovesTheCursorOrTurnsTheText) {
  EXPECT_EQ(shown_text("a\033[31m\nb\x7f\u0085\u2028\u202Ec"),
            "a\uFFFD[31m\uFFFDb\uFFFD\uFFFD\uFFFD\uFFFDc");
  EXPECT_EQ(shown_text(std::string_view("a\0b", 3)), "a\uFFFDb");
}

TEST(ShownText, ReplacesBytesThatAreNoUtf8) {
  EXPECT_EQ(shown_text("a\xff\xc3"), "a\uFFFD\uFFFD");
}

TEST(ShownText, CutsWhatIsTooLongBetweenCharacters) {
  EXPECT_EQ(shown_text("\u00e9\u00e9\u00e9", 2), "\u00e9\u00e9...");
  EXPECT_EQ(shown_text("\u00e9\u00e9", 2), "\u00e9\u00e9");
}

}  // namespace
}  // namespace tandem
