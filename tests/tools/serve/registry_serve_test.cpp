// Tests `tandem serve --registry`: adapters found in the registry, and the server's own entry
// there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "scheduler/cluster/registry/registry.h"
#include "tests/scheduler/cluster/registry/etcd_process.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/crowd.h"
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

// The answer may come before the adapter is in the store.
bool is_kept(const fs::path& path) {
  return eventually([&] { return fs::exists(path); });
}

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
  void add_engine(const std::string& id, const std::string& address) const {
    EngineEntry engine;
    engine.id = id;
    engine.address = address;
    engine.model = "demo-llama";
    const auto registry = open_registry(url_);
    ASSERT_TRUE((*registry)->register_engine(engine, std::chrono::seconds(600)).ok());
  }
  static std::string copy_of(const std::string& adapter, const fs::path& to) {
    fs::create_directories(to);
    fs::copy(kAdapters + adapter, to,
             fs::copy_options::overwrite_existing | fs::copy_options::recursive);
    return to.string();
  }
  std::unique_ptr<ReadyServer> serve(const std::vector<std::string>& more) const {
    std::vector<std::string> args{"serve",         "--model", kModel,       "--port", "0",
                                  "--device",      "host",    "--dtype",    "f32",    "--no-pin",
                                  "--cpu-workers", "0",       "--registry", url_};
    args.insert(args.end(), more.begin(), more.end());
    return std::make_unique<ReadyServer>(args);
  }
  std::unique_ptr<ReadyServer> serve() const { return serve({"--adapter-root", root_.string()}); }
  static std::string ask(const ReadyServer& server, const std::string& model) {
    const nlohmann::json body{
        {"model", model}, {"prompt", "def f("}, {"max_tokens", 4}, {"temperature", 0}};
    return HttpExchange(server.port, "POST", "/v1/completions", body.dump()).read_all();
  }
  // Returns the digest that the server reports for an adapter.
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
  // Adapters are listed before the first request, except for those that cannot be loaded.
  const auto models = [&](const std::string& one) {
    return HttpExchange(server->port, "GET", "/v1/models" + one, "").read_all();
  };
  EXPECT_THAT(models(""), AllOf(HasSubstr("\"id\":\"code\""), HasSubstr("\"id\":\"changed\"")));
  EXPECT_THAT(models(""), ::testing::Not(HasSubstr("\"id\":\"far\"")));
  EXPECT_THAT(models("/code"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(models("/code@1"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(models("/code@2"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(models("/far"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask(*server, "code"), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(digest_of(*server, "code"), newest_digest("code"));
  // Refused: an adapter in another place, and one that differs from the registry's entry.
  EXPECT_THAT(ask(*server, "far"),
              AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("not under an adapter_root")));
  EXPECT_THAT(ask(*server, "changed"),
              AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("holds other weights")));
  EXPECT_EQ(digest_of(*server, "changed"), "");

  // Adds an adapter while it serves, and a new version of one that it serves.
  add("law", copy_of("license", root_ / "law"));
  add("code", copy_of("cheader", root_ / "code-2"));
  const auto comes_to_newest = [&] {
    const std::string newest = newest_digest("code");
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (digest_of(*server, "code") != newest && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return digest_of(*server, "code") == newest;
  };
  EXPECT_TRUE(comes_to_newest());
  EXPECT_THAT(ask(*server, "law"), StartsWith("HTTP/1.1 200"));
  // A client can ask for an older version.
  EXPECT_THAT(ask(*server, "code@1"), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(digest_of(*server, "code@1"), (*open_registry(url_))->find_adapter("code", 1)->digest);
  EXPECT_THAT(ask(*server, "code@3"), StartsWith("HTTP/1.1 404"));

  // A version that is not available yet is looked for again.
  const std::string before = newest_digest("code");
  add("code", copy_of("docstring", outside_ / "code-3"));
  EXPECT_TRUE(server->process.wait_for_error("adapter 'code' version 3"));
  EXPECT_EQ(digest_of(*server, "code"), before);
  fs::rename(outside_, dir_.path() / "moved");
  fs::create_directory_symlink(root_, outside_);
  fs::rename(dir_.path() / "moved" / "code-3", root_ / "code-3");
  EXPECT_TRUE(comes_to_newest());
}

TEST_F(RegistryServe, FetchesAnAdapterFromAnotherEngineAndKeepsIt) {
  add("code", copy_of("python", root_ / "code"));
  add("law", copy_of("license", root_ / "law"));
  add("far", copy_of("docstring", outside_ / "far"));
  const std::string store = (dir_.path() / "store").string();
  const auto first = serve({"--adapter-root", root_.string(), "--api-key", "secret"});
  ASSERT_GT(first->port, 0) << first->process.error();
  const auto ask_with_key = [](const ReadyServer& server, const std::string& model) {
    const nlohmann::json body{
        {"model", model}, {"prompt", "def f("}, {"max_tokens", 8}, {"temperature", 0}};
    const std::string answer = HttpExchange(server.port, "POST", "/v1/completions", body.dump(),
                                            "Authorization: Bearer secret\r\n")
                                   .read_all();
    const std::size_t at = answer.find("\r\n\r\n");
    if (!answer.starts_with("HTTP/1.1 200") || at == std::string::npos) return answer;
    return nlohmann::json::parse(answer.substr(at + 4))["choices"][0]["text"].get<std::string>();
  };
  const auto serve_second = [&] {
    return serve({"--adapter-store", store, "--api-key", "secret"});
  };
  auto second = serve_second();
  ASSERT_GT(second->port, 0) << second->process.error();

  // The first engine lacks it, too, until a request has made it fetch it.
  EXPECT_THAT(ask_with_key(*second, "code"),
              AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("1 other engine of the registry lacks")));
  const std::string expected = ask_with_key(*first, "code");
  EXPECT_EQ(ask_with_key(*second, "code"), expected);
  EXPECT_THAT(ask_with_key(*second, "far"),
              AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("not under an adapter_root")));
  EXPECT_TRUE(is_kept(fs::path(store) / newest_digest("code") / "adapter_model.safetensors"));

  (void)ask_with_key(*first, "law");
  EXPECT_EQ(ask_with_key(*second, "law"), ask_with_key(*first, "law"));

  // It keeps its adapters without other engines, except for those that have changed meanwhile.
  for (const ReadyServer* server : {first.get(), second.get()})
    server->process.send_signal(SIGTERM);
  EXPECT_EQ(first->process.wait(), 0) << first->process.error();
  EXPECT_EQ(second->process.wait(), 0) << second->process.error();
  fs::copy(kAdapters + "cheader", fs::path(store) / newest_digest("law"),
           fs::copy_options::overwrite_existing | fs::copy_options::recursive);
  second = serve_second();
  ASSERT_GT(second->port, 0) << second->process.error();
  EXPECT_EQ(ask_with_key(*second, "code"), expected);
  EXPECT_THAT(ask_with_key(*second, "law"),
              AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("no other engine in the registry")));
  EXPECT_FALSE(fs::exists(fs::path(store) / newest_digest("law")));
}

TEST_F(RegistryServe, LetsFewRequestsWaitForOtherEnginesAndNoneWhenItEnds) {
  add("far", copy_of("python", outside_ / "far"));
  const testing::SilentServer stalls;
  add_engine("stalls", "http://" + stalls.endpoint().text());
  // Shorter than the time-out for a silent engine.
  const auto server =
      serve({"--adapter-store", (dir_.path() / "store").string(), "--drain-timeout-s", "6"});
  ASSERT_GT(server->port, 0) << server->process.error();
  std::mutex mutex;
  std::condition_variable told;
  std::vector<std::string> answers;
  std::vector<std::jthread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&] {
      std::string answer = ask(*server, "far");
      const std::lock_guard lock(mutex);
      answers.push_back(std::move(answer));
      told.notify_all();
    });
  }
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(told.wait_for(lock, std::chrono::seconds(60), [&] { return !answers.empty(); }));
    EXPECT_THAT(answers.front(),
                AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("on its way here from another")));
  }
  EXPECT_THAT(ask(*server, "demo-llama"), StartsWith("HTTP/1.1 200"));
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(answers.size(), 1U) << "the others wait";
  }
  server->process.send_signal(SIGTERM);
  EXPECT_EQ(server->process.wait(), 0) << server->process.error();
  clients.clear();
  ASSERT_EQ(answers.size(), 3U);
  for (const std::size_t waited : {1, 2}) {
    EXPECT_THAT(answers[waited],
                AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("this server is shutting down")));
  }
}

TEST_F(RegistryServe, AsksNobodyForWhatItsMemoryCannotHold) {
  add("far", copy_of("python", outside_ / "far"));
  const testing::SilentServer stalls;
  add_engine("stalls", "http://" + stalls.endpoint().text());
  const auto server =
      serve({"--adapter-store", (dir_.path() / "store").string(), "--host-tier-gb", "0.0002"});
  ASSERT_GT(server->port, 0) << server->process.error();
  EXPECT_THAT(ask(*server, "far"),
              AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("raise host_tier_gb")));
}

TEST_F(RegistryServe, UnloadsWhatIsIdleWhereTheStoreHasNoRoom) {
  add("code", copy_of("python", root_ / "code"));
  add("law", copy_of("license", root_ / "law"));
  const auto first = serve();
  ASSERT_GT(first->port, 0) << first->process.error();
  const fs::path store = dir_.path() / "store";
  const auto second =
      serve({"--adapter-store", store.string(), "--adapter-store-gb", "0.0005"});  // room for one
  ASSERT_GT(second->port, 0) << second->process.error();
  for (const std::string name : {"code", "law", "code"}) {
    ASSERT_THAT(ask(*first, name), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(ask(*second, name), StartsWith("HTTP/1.1 200"));
    EXPECT_TRUE(is_kept(store / newest_digest(name)));
  }
  EXPECT_EQ(digest_of(*second, "law"), "");
  EXPECT_FALSE(fs::exists(store / newest_digest("law")));
}

TEST_F(RegistryServe, BeginsWhileTheRegistryIsAway) {
  url_ = "etcd://127.0.0.1:1";
  const auto server = serve();
  ASSERT_GT(server->port, 0) << server->process.error();
  EXPECT_THAT(ask(*server, "demo-llama"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask(*server, "code"),
              AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("has not answered since")));
  server->process.send_signal(SIGTERM);
  EXPECT_EQ(server->process.wait(), 0);
  const std::string& log = server->process.error();
  const std::size_t told = log.find("starts without it");
  EXPECT_NE(told, std::string::npos) << log;
  EXPECT_EQ(log.find("registry: ", told), std::string::npos) << "once: " << log;
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
  // While it drains, routers that start now must not find it.
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
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.error, HasSubstr("neither sqlite:PATH"));
  const Finished any =
      run_tandem({"serve", "--model", kModel, "--registry", url_, "--host", "0.0.0.0"});
  EXPECT_EQ(any.status, 2);
  EXPECT_THAT(any.error, HasSubstr("--advertise http://"));
  const Finished store = run_tandem({"serve", "--model", kModel, "--adapter-store", "/tmp/x"});
  EXPECT_EQ(store.status, 2);
  EXPECT_THAT(store.error, HasSubstr("add --registry URL"));
}

}  // namespace
}  // namespace tandem
