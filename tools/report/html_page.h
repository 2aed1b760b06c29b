// A report as one HTML file: a summary, plots, tables, and last the conditions with command, commit
// and machine. For light and dark screens, phones and paper, without anything from elsewhere; a
// script sorts tables, and all can be read without it. Well-formed XML, too.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/report/plot.h"
#include "tools/report/report_origin.h"

namespace tandem {

// Text from anywhere as content or attribute. What is no UTF-8 and control characters become
// U+FFFD.
std::string html_escape(std::string_view text);

struct HtmlCell {
  // A column with figures in it stands at the right edge. good, bad and best have a sign before the
  // text beside their colour.
  enum class Look { text, figure, good, bad, best };

  std::string text;
  Look look = Look::text;
};
using HtmlRows = std::vector<std::vector<HtmlCell>>;

// One of the few figures that a page opens with.
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
  // Its reader may order it by any column: the figures of one have to have one unit.
  void sortable_table(const std::vector<std::string>& head, const HtmlRows& rows);
  void plots(const std::vector<Plot>& plots);  // beside each other where there is room
  // A whole SVG file of ours, as it is; its style sheet holds for the page.
  void picture(std::string_view svg);
  // A row of the page's last section, which tells the origin first.
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
