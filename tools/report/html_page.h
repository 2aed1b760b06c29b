// A report as one HTML file: a summary, plots, tables, and at the end the conditions with command,
// commit and machine. It suits light and dark screens, phones and paper, loads nothing from
// elsewhere, and is readable without the script that sorts tables. It is well-formed XML, too.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/report/plot.h"
#include "tools/report/report_origin.h"

namespace tandem {

// Escapes any text for use as content or attribute. Invalid UTF-8 and control characters become
// U+FFFD.
std::string html_escape(std::string_view text);

struct HtmlCell {
  // A column of figures is aligned right. good, bad and best have a sign before the text as well as
  // a colour.
  enum class Look { text, figure, good, bad, best };

  std::string text;
  Look look = Look::text;
};
using HtmlRows = std::vector<std::vector<HtmlCell>>;

// One of the few main figures at the top of a page.
struct HtmlFigure {
  std::string name;   // "requests/s"
  std::string value;  // "59.9"
  std::string note = {};
  HtmlCell::Look look = HtmlCell::Look::figure;
};

class HtmlPage {
 public:
  HtmlPage(std::string title, ReportOrigin origin);

  void summary(const std::vector<HtmlFigure>& figures);
  void section(std::string_view heading);
  void paragraph(std::string_view text);
  void table(const std::vector<std::string>& head, const HtmlRows& rows);
  // A table that the reader can sort by any column: all figures of a column need the same unit.
  void sortable_table(const std::vector<std::string>& head, const HtmlRows& rows);
  void plots(const std::vector<Plot>& plots);  // side by side if there is room
  // Adds a complete SVG file of ours unchanged; its style sheet applies to the whole page.
  void picture(std::string_view svg);
  // Adds a row to the page's last section, which begins with the origin.
  void condition(std::string name, std::string value);

  std::string text() const;

 private:
  void add_table(const std::vector<std::string>& head, const HtmlRows& rows, bool sorts);

  std::string title_;
  ReportOrigin origin_;
  std::string body_;
  std::vector<std::pair<std::string, std::string>> conditions_;
};

}  // namespace tandem
