// Runs `tandem route` and `tandem drain` as commands: real processes in front of stub engines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "base/log/log.h"
#include "tests/base/http/test_call.h"
#include "tests/scheduler/cluster/router/stub_engine.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST(Route, ServesTwoEnginesAndEndsOnceItsStreamsHave) {
  log::set_level(log::Level::off);
  StubEngine first("one");
  StubEngine second("two");
  Process route({"route", "--port", "0", "--engine", first.url(), "--engine", second.url()});
  ASSERT_TRUE(route.wait_for_error("id one"));
  ASSERT_TRUE(route.wait_for_error("id two"));
  const int port = listening_port(route);
  ASSERT_GT(port, 0) << route.error();
  EXPECT_EQ(get(port, "/ready").status, 200);

  StubScript script;
  script.stall_at = 3;
  first.set_script(script);
  second.set_script(script);
  const json request = {{"prompt", "x"}, {"max_tokens", 9}, {"stream", true}, {"seed", 1}};
  TestCall client(port, "POST", "/v1/completions", request.dump());
  EXPECT_EQ(client.receive_head().status, 200);
  EXPECT_FALSE(client.next_event().empty());
  route.send_signal(SIGTERM);
  ASSERT_TRUE(route.wait_for_error("draining"));
  first.set_script({});
  second.set_script({});
  (first.relays() > 0 ? first : second).kill();  // its last stream continues as well
  std::string last;
  for (std::string event = client.next_event(); !event.empty(); event = client.next_event()) {
    last = event;
  }
  EXPECT_EQ(last, "[DONE]");
  EXPECT_EQ(route.wait(), 0);
  EXPECT_THAT(route.error(), HasSubstr("drained, stopped"));
}

TEST(Route, StartsFromTheFileThatComesWithIt) {
  ProcessOptions options;
  options.folder = "..";
  Process route({"route", "--config", "configs/cluster/route.toml", "--port", "0"},
                std::move(options));
  ASSERT_TRUE(route.wait_for_error("in front of 2 engines, by policy tandem")) << route.error();
  route.send_signal(SIGTERM);
  EXPECT_EQ(route.wait(), 0) << route.error();
}

TEST(Route, RefusesAddressesThatAreNone) {
  const Finished finished = run_tandem({"route", "--engine", "https://host"});
  EXPECT_EQ(finished.status, 2);
  EXPECT_THAT(finished.error, HasSubstr("give http://HOST:PORT"));
  const Finished none = run_tandem({"route"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.error, HasSubstr("--registry URL"));
  EXPECT_THAT(run_tandem({"route", "--registry", "x"}).error, HasSubstr("neither sqlite:PATH"));
}

TEST(Drain, WaitsUntilTheEngineIsEmpty) {
  log::set_level(log::Level::off);
  StubEngine engine("one");
  engine.set_lie({{"running", {{"requests", 2}}}});
  Process drain({"drain", engine.url()});
  ASSERT_TRUE(drain.wait_for_output("2 running, 0 waiting"));
  engine.set_lie(json::object());
  EXPECT_EQ(drain.wait(), 0);
  EXPECT_THAT(drain.output(), HasSubstr("is empty and gets nothing new"));
  EXPECT_EQ(run_tandem({"drain", engine.url(), "--back"}).status, 0);
  engine.kill();
  const Finished gone = run_tandem({"drain", engine.url()});
  EXPECT_EQ(gone.status, 1);
  EXPECT_THAT(gone.error, HasSubstr(engine.url()));
  EXPECT_EQ(run_tandem({"drain"}).status, 2);
}

}  // namespace
}  // namespace tandem
