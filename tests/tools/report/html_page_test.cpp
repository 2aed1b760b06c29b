#include "tools/report/html_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(HtmlPage, EscapesEveryText) {
  HtmlPage page("<t>");
  page.section("<s>");
  page.paragraph("a & \"b\"");
  page.table({"<h>"}, {{{"<c>", HtmlCell::Look::text}}});
  const std::string text = page.text();
  EXPECT_THAT(text, StartsWith("<!DOCTYPE html>"));
  for (const char* raw : {"<t>", "<s>", "<c>", "<h>"}) EXPECT_THAT(text, Not(HasSubstr(raw)));
  for (const char* escaped : {"&lt;t&gt;", "&lt;s&gt;", "&lt;c&gt;", "a &amp; &quot;b&quot;"}) {
    EXPECT_THAT(text, HasSubstr(escaped));
  }
}

TEST(HtmlPage, NeedsNothingFromElsewhereAndKnowsDarkScreens) {
  const std::string text = HtmlPage("t").text();
  EXPECT_THAT(text, HasSubstr("prefers-color-scheme: dark"));
  for (const char* foreign : {"http", "src=", "href=", "@import", "<script"}) {
    EXPECT_THAT(text, Not(HasSubstr(foreign)));
  }
}

}  // namespace
}  // namespace tandem
