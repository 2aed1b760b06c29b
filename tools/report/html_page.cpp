#include "tools/report/html_page.h"

#include <fmt/format.h>

namespace tandem {
namespace {

// .s0 .. .s8 are the series of plots: a colour that stands out on either background, and a dash,
// so that they can be told apart without colours.
constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --back: #fff; --text: #1c2024; --dim: #5b6570; --rule: #d9dee3;
  --good: #12703f; --bad: #b3261e; --c0: #1f6fd0; --c1: #d1560b; --c2: #12845c; --c3: #a8309a;
  --c4: #86690a; --c5: #5b4fc4; --c6: #00798a; --c7: #b3262e; --c8: #4a525a; }
@media (prefers-color-scheme: dark) { :root { --back: #14171a; --text: #e6e9ec; --dim: #9aa5b1;
  --rule: #343b42; --good: #57cf8f; --bad: #ff8077; --c0: #6aa9ff; --c1: #ff9a57; --c2: #4cc795;
  --c3: #ee86cf; --c4: #d3b743; --c5: #a99dff; --c6: #3fc5d4; --c7: #ff7d80; --c8: #b4bcc5; } }
body { margin: 0 auto; max-width: 88rem; padding: 1.5rem; background: var(--back);
  color: var(--text); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; max-width: 60rem; color: var(--dim); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .9rem .2rem 0; text-align: left; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
th { font-weight: 600; color: var(--dim); } .n { text-align: right; white-space: nowrap; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.plots { display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
figure { margin: 0; break-inside: avoid; } figcaption { font-weight: 600; }
figure > svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--dim); font: 12px system-ui, sans-serif; } svg .label { fill: var(--text); }
.grid { stroke: var(--rule); stroke-width: 1; } .axis { stroke: var(--dim); stroke-width: 1; }
path { fill: none; stroke-width: 2; stroke-linejoin: round; } circle { stroke: var(--back); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: .2rem 0; padding: 0;
  list-style: none; } .legend svg { width: 1.75rem; height: .6rem; margin-right: .4rem; }
path.s0 { stroke: var(--c0); } path.s1 { stroke: var(--c1); stroke-dasharray: 8 3; }
path.s2 { stroke: var(--c2); stroke-dasharray: 2 3; } path.s3 { stroke: var(--c3); stroke-dasharray: 9 3 2 3; }
path.s4 { stroke: var(--c4); stroke-dasharray: 5 5; } path.s5 { stroke: var(--c5); stroke-dasharray: 14 4; }
path.s6 { stroke: var(--c6); stroke-dasharray: 4 2 1 2; } path.s7 { stroke: var(--c7); stroke-dasharray: 1 5; }
path.s8 { stroke: var(--c8); stroke-dasharray: 6 2; }
circle.s0 { fill: var(--c0); } circle.s1 { fill: var(--c1); } circle.s2 { fill: var(--c2); }
circle.s3 { fill: var(--c3); } circle.s4 { fill: var(--c4); } circle.s5 { fill: var(--c5); }
circle.s6 { fill: var(--c6); } circle.s7 { fill: var(--c7); }
circle.s8 { fill: var(--c8); }
)css";

std::string_view class_of(HtmlCell::Look look) {
  switch (look) {
    case HtmlCell::Look::text:
      return "";
    case HtmlCell::Look::figure:
      return " class=\"n\"";
    case HtmlCell::Look::good:
      return " class=\"good\"";
    case HtmlCell::Look::bad:
      return " class=\"bad\"";
  }
  return "";
}

}  // namespace

std::string html_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

HtmlPage::HtmlPage(std::string title) : title_(std::move(title)) {}

void HtmlPage::section(std::string_view heading) {
  body_ += fmt::format("<h2>{}</h2>\n", html_escape(heading));
}

void HtmlPage::paragraph(std::string_view text) {
  body_ += fmt::format("<p>{}</p>\n", html_escape(text));
}

void HtmlPage::table(const std::vector<std::string>& head,
                     const std::vector<std::vector<HtmlCell>>& rows) {
  body_ += "<div class=\"wide\"><table>\n<tr>";
  for (std::size_t i = 0; i < head.size(); ++i) {
    // A heading stands where its column's cells do.
    const bool figures =
        !rows.empty() && i < rows[0].size() && rows[0][i].look == HtmlCell::Look::figure;
    body_ += fmt::format("<th{}>{}</th>", figures ? " class=\"n\"" : "", html_escape(head[i]));
  }
  body_ += "</tr>\n";
  for (const auto& row : rows) {
    body_ += "<tr>";
    for (const HtmlCell& cell : row) {
      body_ += fmt::format("<td{}>{}</td>", class_of(cell.look), html_escape(cell.text));
    }
    body_ += "</tr>\n";
  }
  body_ += "</table></div>\n";
}

void HtmlPage::plots(const std::vector<Plot>& plots) {
  body_ += "<div class=\"plots\">\n";
  for (const Plot& plot : plots) body_ += plot_html(plot);
  body_ += "</div>\n";
}

std::string HtmlPage::text() const {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{2}</body>\n</"
      "html>\n",
      html_escape(title_), kStyle, body_);
}

}  // namespace tandem
