// Tests `tandem serve --registry --adapter-store`: adapters are used while they arrive from other
// engines, which may die or lie meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "scheduler/cluster/registry/registry.h"
#include "tests/engine/peers/file_peer.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::FilePeer;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kModel = "data/demo-llama";
const std::string kAdapters = "data/demo-llama/adapters/";

class RegistryArrival : public ::testing::Test {
 protected:
  void SetUp() override {
    const Finished added = run_tandem({"adapters", "add", "code", kAdapters + "python",
                                       "--registry", url_, "--model", kModel, "--dtype", "f32"});
    ASSERT_EQ(added.status, 0) << added.error;
  }
  void enter(const std::string& id, const FilePeer& peer) const {
    EngineEntry engine;
    engine.id = id;
    engine.address = peer.address().text();
    engine.model = "demo-llama";
    const auto registry = open_registry(url_);
    ASSERT_TRUE((*registry)->register_engine(engine, std::chrono::seconds(600)).ok());
  }
  std::unique_ptr<ReadyServer> serve(const std::vector<std::string>& more) const {
    std::vector<std::string> args{"serve",         "--model", kModel,       "--port", "0",
                                  "--device",      "host",    "--dtype",    "f32",    "--no-pin",
                                  "--cpu-workers", "0",       "--registry", url_};
    args.insert(args.end(), more.begin(), more.end());
    return std::make_unique<ReadyServer>(args);
  }
  // Starts a server without adapters of its own that fetches them.
  std::unique_ptr<ReadyServer> serve_fetching() const {
    return serve({"--adapter-store", store_.string()});
  }
  // Returns the text, or the whole answer if there is none.
  static std::string ask(const ReadyServer& server) {
    const nlohmann::json body{
        {"model", "code"}, {"prompt", "def f("}, {"max_tokens", 8}, {"temperature", 0}};
    const std::string answer =
        HttpExchange(server.port, "POST", "/v1/completions", body.dump()).read_all();
    const std::size_t at = answer.find("\r\n\r\n");
    if (!answer.starts_with("HTTP/1.1 200") || at == std::string::npos) return answer;
    return nlohmann::json::parse(answer.substr(at + 4))["choices"][0]["text"].get<std::string>();
  }
  std::string undisturbed() const {
    const auto server = serve({"--adapter-root", fs::canonical(kAdapters).string()});
    EXPECT_GT(server->port, 0) << server->process.error();
    return ask(*server);
  }
  static std::string get(const ReadyServer& server, const std::string& path) {
    return HttpExchange(server.port, "GET", path, "").read_all();
  }
  static bool wait_until_named(const ReadyServer& server) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    const auto is_named = [&] {
      return get(server, "/v1/adapters").find("\"code\"") != std::string::npos;
    };
    while (!is_named() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return is_named();
  }
  fs::path kept() const { return store_ / (*open_registry(url_))->find_adapter("code")->digest; }

  testing::TempDir dir_;
  fs::path store_ = dir_.path() / "store";
  std::string url_ = "sqlite:" + (dir_.path() / "registry.db").string();
};

TEST_F(RegistryArrival, IsServedBeforeTheLastByteHasComeAndAnswersTheSame) {
  const std::string expected = undisturbed();
  FilePeer slow(kAdapters + "python");
  enter("slow", slow);
  const auto server = serve_fetching();
  ASSERT_GT(server->port, 0) << server->process.error();
  auto answer = std::async(std::launch::async, [&] { return ask(*server); });
  ASSERT_TRUE(wait_until_named(*server)) << "though its last byte is held back";
  EXPECT_FALSE(fs::exists(kept()));
  EXPECT_EQ(answer.wait_for(std::chrono::seconds(0)), std::future_status::timeout)
      << "no token before the digest is known";
  slow.set_last(FilePeer::Last::sent);
  EXPECT_EQ(answer.get(), expected);
  EXPECT_TRUE(server->process.wait_for_error("ms before its last byte came"));
  EXPECT_TRUE(fs::exists(kept() / "adapter_model.safetensors"));
  EXPECT_THAT(get(*server, "/metrics"), HasSubstr("tandem_adapter_early_arrivals_total{"));
  EXPECT_EQ(ask(*server), expected);
}

TEST_F(RegistryArrival, ComesFromAnotherEngineWhenTheFirstDies) {
  const std::string expected = undisturbed();
  FilePeer one(kAdapters + "python");
  FilePeer two(kAdapters + "python");
  enter("one", one);
  enter("two", two);
  const auto server = serve_fetching();
  ASSERT_GT(server->port, 0) << server->process.error();
  auto answer = std::async(std::launch::async, [&] { return ask(*server); });
  ASSERT_TRUE(wait_until_named(*server));
  ASSERT_NE(one.is_sending(), two.is_sending());
  FilePeer& first = one.is_sending() ? one : two;
  FilePeer& other = one.is_sending() ? two : one;
  other.set_last(FilePeer::Last::sent);
  first.set_last(FilePeer::Last::cut_off);
  EXPECT_EQ(answer.get(), expected);
  EXPECT_TRUE(
      server->process.wait_for_error(first.address().text() + " did not send an adapter's files"));
}

TEST_F(RegistryArrival, IsNotServedWhereTheOnlyEngineLies) {
  // Makes an adapter of the same shape that differs in one weight.
  const testing::TempDir made;
  fs::copy(kAdapters + "python", made.path() / "other");
  {
    std::fstream weights(made.path() / "other" / "adapter_model.safetensors",
                         std::ios::in | std::ios::out | std::ios::binary);
    weights.seekg(-2, std::ios::end);
    const char mantissa = static_cast<char>(weights.peek() ^ 0x40);
    weights.seekp(-2, std::ios::end);
    weights.put(mantissa);
  }
  FilePeer lies((made.path() / "other").string());
  enter("lies", lies);
  const auto server = serve_fetching();
  ASSERT_GT(server->port, 0) << server->process.error();
  auto answer = std::async(std::launch::async, [&] { return ask(*server); });
  ASSERT_TRUE(wait_until_named(*server));
  lies.set_last(FilePeer::Last::sent);
  EXPECT_THAT(answer.get(), AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("holds other weights"),
                                  HasSubstr(lies.address().text())));
  EXPECT_EQ(get(*server, "/v1/adapters").find("\"code\""), std::string::npos);
  EXPECT_FALSE(fs::exists(kept()));
  EXPECT_THAT(ask(*server), StartsWith("HTTP/1.1 503"));
}

}  // namespace
}  // namespace tandem
