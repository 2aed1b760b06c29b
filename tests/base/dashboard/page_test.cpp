#include "base/dashboard/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/dashboard/page_files.h"

namespace tandem {
namespace {

HttpResponse asked(const std::string& path, const std::string& tag = {}) {
  HttpRequest request;
  request.method = "GET";
  request.path = path;
  if (!tag.empty()) request.headers["if-none-match"] = tag;
  return page_response(request);
}

std::string header_of(const HttpResponse& response, std::string_view name) {
  for (const auto& [each, value] : response.headers) {
    if (each == name) return value;
  }
  return {};
}

TEST(DashboardPage, IsServedWithAPolicyThatLetsNothingElseRun) {
  const HttpResponse page = asked("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_TRUE(page.body.starts_with("<!doctype html>"));
  const std::string policy = header_of(page, "Content-Security-Policy");
  EXPECT_NE(policy.find("default-src 'none'; script-src 'self'"), std::string::npos);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(header_of(page, "X-Content-Type-Options"), "nosniff");
}

TEST(DashboardPage, NamesOnlyFilesThatAreThere) {
  const std::string page = asked("/").body;
  for (std::size_t at = page.find("\"/dashboard/"); at != std::string::npos;
       at = page.find("\"/dashboard/", at + 1)) {
    const std::string path = page.substr(at + 1, page.find('"', at + 1) - at - 1);
    EXPECT_EQ(asked(path).status, 200) << path;
  }
  // Modules import each other by relative paths.
  for (const PageFile& file : page_files()) {
    const std::string text(file.bytes);
    for (std::size_t at = text.find("from './"); at != std::string::npos;
         at = text.find("from './", at + 1)) {
      const std::string name = text.substr(at + 8, text.find('\'', at + 8) - at - 8);
      EXPECT_EQ(asked("/dashboard/" + name).status, 200) << file.name << " imports " << name;
    }
  }
}

// Everything that a server sends, including names of adapters, must stay text.
TEST(DashboardPage, NeverMakesMarkupOfText) {
  for (const PageFile& file : page_files()) {
    for (const char* word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                             "eval(", "localStorage", "style=\"", "onclick="}) {
      EXPECT_EQ(file.bytes.find(word), std::string_view::npos) << file.name << ": " << word;
    }
  }
}

TEST(DashboardPage, IsNotSentAgainToWhoHasIt) {
  const HttpResponse first = asked("/dashboard/dashboard.js");
  const std::string tag = header_of(first, "ETag");
  ASSERT_FALSE(tag.empty());
  const HttpResponse again = asked("/dashboard/dashboard.js", tag);
  EXPECT_EQ(again.status, 304);
  EXPECT_TRUE(again.body.empty());
  EXPECT_EQ(asked("/dashboard/dashboard.js", "\"another\"").status, 200);
  EXPECT_NE(header_of(asked("/dashboard/feed.js"), "ETag"), tag);
}

TEST(DashboardPage, HasNoOtherFiles) {
  for (const char* path :
       {"/dashboard/", "/dashboard/x.js", "/dashboard/../page.h", "/dashboard//index.html"}) {
    EXPECT_TRUE(is_page_path(path)) << path;
    EXPECT_EQ(asked(path).status, 404) << path;
  }
  EXPECT_FALSE(is_page_path("/v1/models"));
  EXPECT_FALSE(is_page_path("/dashboard"));
}

}  // namespace
}  // namespace tandem
