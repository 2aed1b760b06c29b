// `tandem serve --registry`: adapters that nobody gave to the server, and its place in the
// registry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "scheduler/registry/registry.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const std::string kModel = "data/demo-llama";
const std::string kAdapters = "data/demo-llama/adapters/";

class RegistryServe : public ::testing::Test {
 protected:
  RegistryServe() {
    fs::create_directories(root_);
    fs::create_directories(outside_);
  }
  void add(const std::string& name, const std::string& folder) const {
    const Finished added = run_tandem(
        {"adapters", "add", name, folder, "--registry", url_, "--model", kModel, "--dtype", "f32"});
    ASSERT_EQ(added.status, 0) << added.error;
  }
  static std::string copy_of(const std::string& adapter, const fs::path& to) {
    fs::create_directories(to);
    fs::copy(kAdapters + adapter, to,
             fs::copy_options::overwrite_existing | fs::copy_options::recursive);
    return to.string();
  }
  std::unique_ptr<ReadyServer> serve() const {
    return std::make_unique<ReadyServer>(std::vector<std::string>{
        "serve", "--model", kModel, "--port", "0", "--device", "host", "--dtype", "f32", "--no-pin",
        "--cpu-workers", "0", "--registry", url_, "--adapter-root", root_.string()});
  }
  static std::string ask(const ReadyServer& server, const std::string& model) {
    const nlohmann::json body{
        {"model", model}, {"prompt", "def f("}, {"max_tokens", 4}, {"temperature", 0}};
    return HttpExchange(server.port, "POST", "/v1/completions", body.dump()).read_all();
  }
  // What the server tells of its adapters, by name.
  static std::string digest_of(const ReadyServer& server, const std::string& name) {
    const std::string answer = HttpExchange(server.port, "GET", "/v1/adapters", "").read_all();
    const std::size_t body = answer.find("\r\n\r\n");
    if (body == std::string::npos) return {};
    const auto json = nlohmann::json::parse(answer.substr(body + 4), nullptr, false);
    for (const auto& adapter : json["data"]) {
      if (adapter["name"] == name) return adapter["digest"].get<std::string>();
    }
    return {};
  }
  std::string newest_digest(const std::string& name) const {
    return (*open_registry(url_))->find_adapter(name)->digest;
  }

  testing::TempDir dir_;
  fs::path root_ = dir_.path() / "root";
  fs::path outside_ = dir_.path() / "outside";
  std::string url_ = "sqlite:" + (dir_.path() / "registry.db").string();
};

TEST_F(RegistryServe, ServesTheRegistrysAdaptersInTheirNewestVersion) {
  add("code", copy_of("python", root_ / "code"));
  add("far", copy_of("python", outside_ / "far"));
  add("changed", copy_of("python", root_ / "changed"));
  copy_of("license", root_ / "changed");
  const auto server = serve();
  ASSERT_GT(server->port, 0) << server->process.error();

  EXPECT_THAT(ask(*server, "nobody"), AllOf(StartsWith("HTTP/1.1 404"), HasSubstr("nobody")));
  EXPECT_EQ(digest_of(*server, "code"), "");
  EXPECT_THAT(ask(*server, "code"), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(digest_of(*server, "code"), newest_digest("code"));
  // Neither what lies elsewhere, nor what is not what the registry says.
  EXPECT_THAT(ask(*server, "far"),
              AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("not under an adapter_root")));
  EXPECT_THAT(ask(*server, "changed"),
              AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("holds other weights")));
  EXPECT_EQ(digest_of(*server, "changed"), "");

  // Added while it serves, and a new version of what it serves.
  add("law", copy_of("license", root_ / "law"));
  add("code", copy_of("cheader", root_ / "code-2"));
  const std::string newest = newest_digest("code");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (digest_of(*server, "code") != newest && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(digest_of(*server, "code"), newest);
  EXPECT_THAT(ask(*server, "law"), StartsWith("HTTP/1.1 200"));
}

TEST_F(RegistryServe, IsInTheRegistryUntilItEnds) {
  const auto registry = open_registry(url_);
  ASSERT_TRUE(registry.ok()) << registry.status().message();
  const auto server = serve();
  ASSERT_GT(server->port, 0) << server->process.error();
  const auto alive = (*registry)->snapshot();
  ASSERT_TRUE(alive.ok());
  ASSERT_EQ(alive->engines.size(), 1U);
  const EngineEntry& engine = alive->engines.front();
  EXPECT_EQ(engine.address, "http://127.0.0.1:" + std::to_string(server->port));
  EXPECT_EQ(engine.model, "demo-llama");
  EXPECT_EQ(engine.id.size(), 16U);
  EXPECT_GT(engine.capacity.kv_tokens, 0);
  EXPECT_THAT(HttpExchange(server->port, "GET", "/v1/stats", "").read_all(),
              HasSubstr("\"id\":\"" + engine.id + '"'));
  // While it drains, nobody who starts now shall find it.
  const auto registered = [&](std::size_t engines) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while ((*registry)->snapshot()->engines.size() != engines &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return (*registry)->snapshot()->engines.size() == engines;
  };
  (void)HttpExchange(server->port, "POST", "/v1/drain", "{}").read_all();
  EXPECT_TRUE(registered(0));
  (void)HttpExchange(server->port, "POST", "/v1/drain", R"({"drain":false})").read_all();
  EXPECT_TRUE(registered(1));
  server->process.send_signal(SIGTERM);
  EXPECT_EQ(server->process.wait(), 0) << server->process.error();
  EXPECT_THAT((*registry)->snapshot()->engines, IsEmpty());
}

TEST_F(RegistryServe, MistakesAreSaidBeforeTheModelIsLoaded) {
  const Finished bad = run_tandem({"serve", "--model", kModel, "--registry", "x"});
  EXPECT_EQ(bad.status, 1);
  EXPECT_THAT(bad.error, HasSubstr("neither sqlite:PATH"));
  const Finished any =
      run_tandem({"serve", "--model", kModel, "--registry", url_, "--host", "0.0.0.0"});
  EXPECT_EQ(any.status, 1);
  EXPECT_THAT(any.error, HasSubstr("--advertise http://"));
}

}  // namespace
}  // namespace tandem
