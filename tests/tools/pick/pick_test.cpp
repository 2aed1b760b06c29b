// Runs `tandem pick` as a command: real processes in front of stub engines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>

#include "base/log/log.h"
#include "scheduler/cluster/registry/registry.h"
#include "tests/base/http/test_client.h"
#include "tests/scheduler/cluster/router/stub_engine.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

TEST(Pick, SaysWhatABuildWithoutItLacks) {
  const testing::TempDir folder;
  ProcessOptions options;
  options.program = (folder.path() / "tandem").string();
  std::filesystem::copy_file(program_under_test(), options.program);
  const Finished finished = run_tandem({"pick", "--engine", "http://127.0.0.1:9"}, options);
  EXPECT_EQ(finished.status, 1);
  EXPECT_THAT(finished.error, HasSubstr("this build has no picker"));
  EXPECT_THAT(finished.error, HasSubstr("tools/install-deps --picker"));
}

TEST(Pick, ExplainsItselfWithAndWithoutGrpc) {
  const Finished help = run_tandem({"pick", "--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, HasSubstr("--max-fallbacks"));
  const Finished none = run_tandem({"pick"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.error, HasSubstr("--registry URL"));
  EXPECT_EQ(run_tandem({"pick", "--engine", "http://a:1", "--policy", "best"}).status, 2);
}

#ifdef TANDEM_HAVE_PICKER

TEST(Pick, TellsOfItsEnginesAndEndsAtOnce) {
  log::set_level(log::Level::off);
  StubEngine engine("one");
  // The file has keys of `tandem serve`, which the program tandem-pick must accept.
  Process pick({"pick", "--config", "../configs/demo.toml", "--port", "0", "--metrics-port", "0",
                "--engine", "http://localhost:" + std::to_string(engine.port())});
  ASSERT_TRUE(pick.wait_for_error("id one")) << pick.error();
  const int metrics = pick.wait_for_number("metrics on http://127.0.0.1:");
  const int port = pick.wait_for_number("listening on 127.0.0.1:");
  ASSERT_GT(metrics, 0) << pick.error();
  ASSERT_GT(port, 0) << pick.error();
  // The statistics are counted just after the engine is named in the log.
  EXPECT_TRUE(eventually([&] { return get(metrics, "/ready").status == 200; }));
  EXPECT_THAT(get(metrics, "/metrics").body, HasSubstr("tandem_picker_engines_up 1"));

  const Finished second = run_tandem(
      {"pick", "--port", std::to_string(port), "--metrics-port", "0", "--engine", engine.url()});
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.error, HasSubstr("Address already in use"));

  const auto begin = std::chrono::steady_clock::now();
  pick.send_signal(SIGTERM);
  EXPECT_EQ(pick.wait(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_THAT(pick.error(), HasSubstr("stopped"));
}

// One engine is listed by name, which Envoy could not use.
TEST(Pick, FollowsTheEnginesOfARegistry) {
  log::set_level(log::Level::off);
  const testing::TempDir folder;
  const std::string url = "sqlite:" + (folder.path() / "registry.db").string();
  const auto registry = open_registry(url);
  ASSERT_TRUE(registry) << registry.status().message();
  const auto enter = [&](const std::string& id, const StubEngine& engine) {
    EngineEntry entry;
    entry.id = id;
    entry.address = "http://localhost:" + std::to_string(engine.port());
    entry.model = "base";
    entry.capacity = {8, 1000, 1000};
    return (*registry)->register_engine(entry, std::chrono::seconds(60));
  };
  StubEngine first("one");
  StubEngine second("two");
  const auto lease = enter("one", first);
  ASSERT_TRUE(lease) << lease.status().message();
  Process pick({"pick", "--port", "0", "--metrics-port", "0", "--registry", url});
  ASSERT_TRUE(pick.wait_for_error("in front of the registry's engines")) << pick.error();
  ASSERT_TRUE(pick.wait_for_error("id one")) << pick.error();
  ASSERT_TRUE(enter("two", second));
  ASSERT_TRUE(pick.wait_for_error("id two")) << pick.error();
  const int metrics = pick.wait_for_number("metrics on http://127.0.0.1:");
  ASSERT_GT(metrics, 0) << pick.error();
  EXPECT_THAT(get(metrics, "/v1/stats").body,
              HasSubstr("\"endpoint\":\"127.0.0.1:" + std::to_string(first.port())));
  EXPECT_TRUE((*registry)->release(*lease));
  ASSERT_TRUE(pick.wait_for_error("no longer listed")) << pick.error();
  first.kill();
  ASSERT_TRUE(pick.wait_for_error("the engine is gone")) << pick.error();
  EXPECT_TRUE(eventually([&] {
    return get(metrics, "/metrics").body.find("tandem_picker_engines 1") != std::string::npos;
  }));
  pick.send_signal(SIGTERM);
  EXPECT_EQ(pick.wait(), 0);
}

TEST(Pick, RefusesEnginesThatHaveNoAddress) {
  const Finished finished = run_tandem({"pick", "--engine", "http://no-such-host.invalid:1"});
  EXPECT_EQ(finished.status, 1);
  EXPECT_THAT(finished.error, HasSubstr("no-such-host.invalid"));
  EXPECT_THAT(finished.error, HasSubstr("has no address"));
}

#endif

}  // namespace
}  // namespace tandem
