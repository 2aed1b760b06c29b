#include "tools/report/html_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/utf8.h"
#include "tools/report/page_style.h"

namespace tandem {
namespace {

using Look = HtmlCell::Look;

std::string_view class_of(Look look) {
  switch (look) {
    case Look::text:
    case Look::figure:
      return "";
    case Look::good:
      return "good";
    case Look::bad:
      return "bad";
    case Look::best:
      return "best";
  }
  return "";
}

// Alignment of a table's column.
enum class Column { words, sentences, figures };

Column column_of(const HtmlRows& rows, std::size_t number) {
  constexpr std::size_t kWords = 24;  // bytes; longer texts need room on a phone, too
  Column column = Column::words;
  for (const std::vector<HtmlCell>& row : rows) {
    if (number >= row.size()) continue;
    if (row[number].look == Look::figure) return Column::figures;
    if (row[number].text.size() > kWords) column = Column::sentences;
  }
  return column;
}

std::string class_text(Look look, Column column) {
  const std::string_view mark = class_of(look);
  const std::string_view set = column == Column::figures     ? "n"
                               : column == Column::sentences ? "w"
                                                             : "";
  if (mark.empty() && set.empty()) return {};
  return fmt::format(" class=\"{}{}{}\"", mark, mark.empty() || set.empty() ? "" : " ", set);
}

std::string fact_row(std::string_view name, std::string_view value, const char* element = "") {
  const std::string inner = html_escape(value);
  return fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", html_escape(name),
                     *element == '\0' ? inner : fmt::format("<{0}>{1}</{0}>", element, inner));
}

}  // namespace

std::string html_escape(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = utf8::next(text, at);
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7F || c == 0xFFFE || c == 0xFFFF) {
      out += utf8::kReplacement;
    } else {
      utf8::append(out, c);
    }
  }
  return out;
}

HtmlPage::HtmlPage(std::string title, ReportOrigin origin)
    : title_(std::move(title)), origin_(std::move(origin)) {}

void HtmlPage::summary(const std::vector<HtmlFigure>& figures) {
  body_ += "<dl class=\"summary\">\n";
  for (const HtmlFigure& one : figures) {
    body_ += fmt::format("<div><dt>{}</dt><dd{}>{}</dd>", html_escape(one.name),
                         class_text(one.look, Column::words), html_escape(one.value));
    if (!one.note.empty())
      body_ += fmt::format("<dd class=\"note\">{}</dd>", html_escape(one.note));
    body_ += "</div>\n";
  }
  body_ += "</dl>\n";
}

void HtmlPage::section(std::string_view heading) {
  body_ += fmt::format("<h2>{}</h2>\n", html_escape(heading));
}

void HtmlPage::paragraph(std::string_view text) {
  body_ += fmt::format("<p>{}</p>\n", html_escape(text));
}

void HtmlPage::table(const std::vector<std::string>& head, const HtmlRows& rows) {
  add_table(head, rows, false);
}

void HtmlPage::sortable_table(const std::vector<std::string>& head, const HtmlRows& rows) {
  add_table(head, rows, rows.size() > 1);
}

void HtmlPage::add_table(const std::vector<std::string>& head, const HtmlRows& rows, bool sorts) {
  std::vector<Column> columns;
  for (std::size_t i = 0; i < head.size(); ++i) columns.push_back(column_of(rows, i));
  body_ +=
      fmt::format("<div class=\"wide\"><table{}>\n<thead><tr>", sorts ? " class=\"sorts\"" : "");
  for (std::size_t i = 0; i < head.size(); ++i) {
    body_ += fmt::format("<th scope=\"col\"{}>{}</th>", class_text(Look::text, columns[i]),
                         html_escape(head[i]));
  }
  body_ += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows) {
    body_ += "<tr>";
    for (std::size_t i = 0; i < std::min(row.size(), columns.size()); ++i) {
      body_ += fmt::format("<td{}>{}</td>", class_text(row[i].look, columns[i]),
                           html_escape(row[i].text));
    }
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
}

void HtmlPage::plots(const std::vector<Plot>& plots) {
  body_ += "<div class=\"plots\">\n";
  for (const Plot& plot : plots) body_ += plot_html(plot);
  body_ += "</div>\n";
}

void HtmlPage::picture(std::string_view svg) {
  body_ += fmt::format("<div class=\"wide\">\n{}</div>\n", svg);
}

void HtmlPage::condition(std::string name, std::string value) {
  conditions_.emplace_back(std::move(name), std::move(value));
}

std::string HtmlPage::text() const {
  std::string last = "<h2>Conditions</h2>\n<div class=\"wide\"><table class=\"facts\"><tbody>\n";
  last += fact_row("command", origin_.command, "code");
  last += fact_row("commit", origin_.commit);
  last += fact_row("machine", origin_.machine);
  last += fact_row("date", origin_.date);
  for (const auto& [name, value] : conditions_) last += fact_row(name, value);
  last += "</tbody></table></div>\n";
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n"
      "<p>{2}, commit {3}, {4}</p>\n{5}{6}<script>{7}</script>\n</body>\n</html>\n",
      html_escape(title_), kPageStyle, html_escape(origin_.date), html_escape(origin_.commit),
      html_escape(origin_.machine), body_, last, kSortScript);
}

}  // namespace tandem
