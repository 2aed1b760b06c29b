#include "tools/report/html_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Look = HtmlCell::Look;

ReportOrigin some_origin() {
  return {"tandem bench <x>", "abc123", "a & machine", "2026-11-23T20:15:00Z"};
}

TEST(HtmlPage, EscapesEveryText) {
  HtmlPage page("<t>", some_origin());
  page.summary({{"<n>", "<v>", "<o>"}});
  page.section("<s>");
  page.paragraph("a & \"b\"");
  page.table({"<h>"}, {{{"<c>", Look::text}}});
  page.condition("<w>", "<y>");
  const std::string text = page.text();
  EXPECT_THAT(text, StartsWith("<!DOCTYPE html>"));
  for (const char* part : {"t", "n", "v", "o", "s", "c", "h", "w", "y", "x"}) {
    EXPECT_THAT(text, Not(HasSubstr(std::string("<") + part + ">")));
    EXPECT_THAT(text, HasSubstr(std::string("&lt;") + part + "&gt;"));
  }
  EXPECT_THAT(text, HasSubstr("a &amp; &quot;b&quot;"));
}

TEST(HtmlEscape, ReplacesWhatIsNoTextOfAPage) {
  EXPECT_EQ(html_escape("a\x01\x7F\xFF z\u00e9"), "a\uFFFD\uFFFD\uFFFD z\u00e9");
  EXPECT_EQ(html_escape("\t\n'"), "\t\n'");
}

TEST(HtmlPage, NeedsNothingFromElsewhereAndKnowsDarkScreens) {
  const std::string text = HtmlPage("t", some_origin()).text();
  EXPECT_THAT(text, HasSubstr("prefers-color-scheme: dark"));
  for (const char* foreign : {"http", "src=", "href=", "@import", "url("}) {
    EXPECT_THAT(text, Not(HasSubstr(foreign)));
  }
}

TEST(HtmlPage, EndsWithCommandCommitAndMachine) {
  HtmlPage page("t", some_origin());
  page.condition("engines", "60");
  const std::string text = page.text();
  for (const char* part :
       {"<td><code>tandem bench &lt;x&gt;</code></td>", "<td>abc123</td>",
        "<td>a &amp; machine</td>", "<th scope=\"row\">engines</th><td>60</td>"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(HtmlPage, SetsColumnsWithAFigureToTheRightWhateverElseIsInThem) {
  HtmlPage page("t", some_origin());
  page.table({"name", "ms"}, {{{"a", Look::text}, {"1", Look::best}},
                              {{"b", Look::text}, {"2", Look::figure}},
                              {{"c", Look::bad}, {"3", Look::bad}}});
  const std::string text = page.text();
  for (const char* part :
       {"<th scope=\"col\">name</th><th scope=\"col\" class=\"n\">ms</th>",
        "<td>a</td><td class=\"best n\">1</td>", "<td>b</td><td class=\"n\">2</td>",
        "<td class=\"bad\">c</td><td class=\"bad n\">3</td>"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(HtmlPage, SortsTablesOfSeveralRowsAlone) {
  const HtmlRows rows = {{{"a", Look::text}}, {{"b", Look::text}}};
  HtmlPage one("t", some_origin());
  one.table({"name"}, rows);
  one.sortable_table({"name"}, {rows[0]});
  EXPECT_THAT(one.text(), Not(HasSubstr("<table class=\"sorts\">")));
  one.sortable_table({"name"}, rows);
  EXPECT_THAT(one.text(), HasSubstr("<table class=\"sorts\">"));
}

}  // namespace
}  // namespace tandem
