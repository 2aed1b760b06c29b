// GET and POST /v1/log_level.
#include <gmock/gmock.h>

#include "tests/engine/server/server_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kPath = "/v1/log_level";

class LogLevelTest : public ServerTest {
 protected:
  void TearDown() override {
    log::set_level(log::Level::off);
    ServerTest::TearDown();
  }
};

TEST_F(LogLevelTest, IsChangedWhileTheServerRunsAndBeforeTheModelIsThere) {
  start(/*attached=*/false);
  const auto changed = post(port, kPath, {{"log_level", "error,handoff=off"}});
  EXPECT_EQ(changed.status, 200);
  EXPECT_EQ(changed.body, R"({"log_level":"error,handoff=off"})");
  EXPECT_EQ(get(port, kPath).body, changed.body);
  EXPECT_TRUE(log::enabled(log::Level::error, "engine/server/api.cpp"));
  EXPECT_FALSE(log::enabled(log::Level::error, "engine/handoff/handoff.cpp"));
}

TEST_F(LogLevelTest, StaysWhatItIsWhenWhatIsAskedForIsWrong) {
  start();
  for (const json& body : {json{{"log_level", "loud"}}, json{{"log_level", 3}}, json::object(),
                           json{{"log_level", "info"}, {"more", 1}}}) {
    const auto refused = post(port, kPath, body);
    EXPECT_EQ(refused.status, 400) << body;
    EXPECT_THAT(refused.body, HasSubstr("\"param\":\"log_level\"")) << body;
  }
  EXPECT_EQ(post(port, kPath, {{"log_level", std::string(5000, 'x')}}).status, 400);
  EXPECT_EQ(get(port, kPath).body, R"({"log_level":"off"})");
}

TEST_F(LogLevelTest, NeedsTheKey) {
  options.api_key = "key";
  start();
  EXPECT_EQ(post(port, kPath, {{"log_level", "debug"}}).status, 401);
  EXPECT_EQ(get(port, kPath).status, 401);
  EXPECT_FALSE(log::enabled(log::Level::error, "engine/server/api.cpp"));
}

}  // namespace
}  // namespace tandem
