// Compares the tables in docs/settings.md with the settings table.
//  cd tests && TANDEM_TEST_UPDATE=1 ../build/release/tests/tools/tools_test
//  --gtest_filter='SettingsPage.*'
// writes the tables anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "tools/pick/pick_settings.h"
#include "tools/route/route_settings.h"
#include "tools/settings/engine_settings.h"

namespace tandem {
namespace {

constexpr const char* kPage = "../docs/settings.md";
constexpr std::string_view kBegin = "<!-- written from tools/settings/engine_settings.cpp -->\n";
constexpr std::string_view kEnd = "<!-- end of what is written -->\n";

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

std::string row(const SettingsField& field) {
  if (field.facts().expert) return {};
  std::string value = is_bool(field.facts()) ? "true, false" : value_name_of(field.facts());
  value = replaced(value, "|", ", ");
  if (is_list(field.facts())) value += ", ...";
  const std::string initial = field.facts().default_text;
  return fmt::format("| `{}` | {} | {} | {} |\n", field.facts().key, value,
                     initial.empty() ? "" : fmt::format("`{}`", initial),
                     replaced(field.facts().help, "|", "\\|"));
}

// Returns the tables as they are on the page, with a heading for each group.
std::string written() {
  EngineSettings engine;
  ServerSettings server;
  SettingsTable table;
  add_serve_settings(table, engine, server);
  std::vector<std::pair<std::string, std::string>> groups;
  for (const SettingsField& field : table.fields()) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& known) {
      return known.first == field.facts().group;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), {field.facts().group, ""});
    group->second += row(field);
  }
  std::string out;
  for (const auto& [name, rows] : groups) {
    out += fmt::format("\n## {}\n\n| setting | value | default | meaning |\n", name);
    out += "| --- | --- | --- | --- |\n" + rows;
  }
  out += "\n## tandem route\n\n| setting | value | default | meaning |\n";
  out += "| --- | --- | --- | --- |\n";
  RouteSettings route;
  SettingsTable of_router;
  add_route_settings(of_router, route);
  for (const SettingsField& field : of_router.fields()) out += row(field);
  out += "\n## tandem pick\n\n| setting | value | default | meaning |\n";
  out += "| --- | --- | --- | --- |\n";
  PickSettings pick;
  SettingsTable of_picker;
  add_pick_settings(of_picker, pick);
  for (const SettingsField& field : of_picker.fields()) out += row(field);
  return out + "\n";
}

TEST(SettingsPage, SaysWhatTheTableSays) {
  std::stringstream read;
  read << std::ifstream(kPage).rdbuf();
  const std::string page = read.str();
  const std::size_t begin = page.find(kBegin);
  const std::size_t end = page.find(kEnd);
  ASSERT_NE(begin, std::string::npos) << kPage << " lacks the line " << kBegin;
  ASSERT_NE(end, std::string::npos) << kPage << " lacks the line " << kEnd;
  const std::size_t start = begin + kBegin.size();
  if (std::getenv("TANDEM_TEST_UPDATE") != nullptr) {
    std::ofstream(kPage) << page.substr(0, start) + written() + page.substr(end);
    return;
  }
  EXPECT_EQ(page.substr(start, end - start), written())
      << "docs/settings.md is not what tools/settings/engine_settings.cpp says. To write it "
         "anew:\n  cd tests "
         "&& "
         "TANDEM_TEST_UPDATE=1 ../build/release/tests/tools/tools_test "
         "--gtest_filter='SettingsPage.*'";
}

}  // namespace
}  // namespace tandem
