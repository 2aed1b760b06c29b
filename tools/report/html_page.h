// A report as one HTML file: tables, text and plots, for light and dark screens and for paper,
// without scripts and without anything from elsewhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/report/plot.h"

namespace tandem {

std::string html_escape(std::string_view text);

struct HtmlCell {
  enum class Look { text, figure, good, bad };  // figures stand at the right edge

  std::string text;
  Look look = Look::text;
};

class HtmlPage {
 public:
  explicit HtmlPage(std::string title);

  void section(std::string_view heading);
  void paragraph(std::string_view text);
  void table(const std::vector<std::string>& head, const std::vector<std::vector<HtmlCell>>& rows);
  void plots(const std::vector<Plot>& plots);  // beside each other where there is room

  std::string text() const;

 private:
  std::string title_;
  std::string body_;
};

}  // namespace tandem
