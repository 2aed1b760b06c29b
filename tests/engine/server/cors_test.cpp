#include "base/http/rest/cors.h"

#include "server_fixture.h"

namespace tandem {
namespace {

constexpr const char* kPage = "https://chat.example.org";
constexpr const char* kPath = "/v1/chat/completions";

class CorsTest : public ServerTest {
 protected:
  ClientResponse preflight(const std::string& origin, const char* path = kPath) {
    TestClient client(port);
    client.send(
        http_request("OPTIONS", path, {},
                     "Origin: " + origin +
                         "\r\nConnection: close\r\nAccess-Control-Request-Method: POST\r\n"
                         "Access-Control-Request-Headers: authorization, x-stainless-os\r\n"));
    return client.receive();
  }
  static std::string origin(const char* value) { return std::string("Origin: ") + value + "\r\n"; }
};

TEST_F(CorsTest, AnswersAPreflightWithoutAKey) {
  options.cors_origins = {"http://localhost:3000", kPage};
  options.api_key = "sesame";
  start(false);  // while starting, too
  const auto told = preflight(kPage);
  EXPECT_EQ(told.status, 204);
  EXPECT_EQ(told.headers.at("access-control-allow-origin"), kPage);
  EXPECT_EQ(told.headers.at("access-control-allow-methods"), "POST");
  EXPECT_EQ(told.headers.at("access-control-allow-headers"), "authorization, x-stainless-os");
  EXPECT_EQ(told.headers.at("vary"), "Origin");
  EXPECT_FALSE(told.headers.contains("access-control-allow-credentials"));
  EXPECT_EQ(preflight(kPage, "/v1/models/x").headers.at("access-control-allow-methods"),
            "GET, HEAD");
  const auto refused = preflight("https://elsewhere.example.org");
  EXPECT_EQ(refused.status, 403);
  EXPECT_FALSE(refused.headers.contains("access-control-allow-origin"));
  EXPECT_EQ(refused.headers.at("vary"), "Origin");
  EXPECT_EQ(preflight(kPage, "/nowhere").status, 401);
}

TEST_F(CorsTest, LetsItsPagesReadEveryAnswer) {
  options.cors_origins = {kPage};
  options.api_key = "sesame";
  start();
  const std::string key = "Authorization: Bearer sesame\r\n";
  const nlohmann::json body{{"prompt", "p"}, {"stream", true}};
  for (const auto& response :
       {get(port, "/v1/models", origin(kPage)), get(port, "/nowhere", key + origin(kPage)),
        get(port, "/v1/models", key + origin(kPage)),
        post(port, "/v1/completions", body, key + origin(kPage))}) {
    EXPECT_EQ(response.headers.at("access-control-allow-origin"), kPage) << response.status;
    EXPECT_EQ(response.headers.at("vary"), "Origin");
    EXPECT_NE(response.headers.at("access-control-expose-headers").find("X-Request-Id"),
              std::string::npos);
  }
  for (const std::string& other :
       {origin("https://chat.example.org.evil"), origin("null"), std::string()}) {
    const auto response = get(port, "/v1/models", key + other);
    EXPECT_EQ(response.status, 200);  // the browser hides it from the page
    EXPECT_FALSE(response.headers.contains("access-control-allow-origin")) << other;
    EXPECT_EQ(response.headers.at("vary"), "Origin");
  }
}

TEST_F(CorsTest, LetsEverybodyInWhenAskedTo) {
  options.cors_origins = {"*"};
  start();
  EXPECT_EQ(preflight("null").headers.at("access-control-allow-origin"), "*");
  const auto response = get(port, "/health", origin(kPage));
  EXPECT_EQ(response.headers.at("access-control-allow-origin"), "*");
  EXPECT_FALSE(response.headers.contains("vary"));
}

TEST_F(CorsTest, TellsBrowsersNothingByDefault) {
  start();
  EXPECT_EQ(preflight(kPage).status, 405);
  EXPECT_FALSE(get(port, "/health", origin(kPage)).headers.contains("access-control-allow-origin"));
}

TEST(CorsOrigins, AreAsBrowsersSendThem) {
  EXPECT_TRUE(
      Cors::check({"*", "https://a.example", "http://[::1]:3000", "http://localhost"}).ok());
  for (const char* bad : {"", "a.example", "https://", "https://a.example/", "https://A.example",
                          "https://*.example.org", "null", "https://a.example\r\nx: y"}) {
    EXPECT_FALSE(Cors::check({bad}).ok()) << bad;
  }
}

}  // namespace
}  // namespace tandem
