// Runs `tandem serve` as a command: real processes, answers, signals, and messages at the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kModel = "data/demo-llama";
const std::string kAdapters = "data/demo-llama/adapters";

std::vector<std::string> serve(std::vector<std::string> more) {
  std::vector<std::string> args = {"serve",   "--model", kModel, "--adapters",
                                   kAdapters, "--port",  "0",    "--no-pin"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(Serve, AnswersAndEndsCleanlyOnSigterm) {
  ReadyServer server(serve({}));
  ASSERT_GT(server.port, 0) << server.process.error();
  EXPECT_THAT(HttpExchange(server.port, "GET", "/ready", "").read_all(),
              StartsWith("HTTP/1.1 200"));
  const std::string models = HttpExchange(server.port, "GET", "/v1/models", "").read_all();
  for (const char* name : {"demo-llama", "cheader", "docstring", "license", "python"}) {
    EXPECT_THAT(models, HasSubstr("\"id\":\"" + std::string(name) + "\""));
  }
  server.process.send_signal(SIGTERM);
  EXPECT_EQ(server.process.wait(), 0);
  EXPECT_THAT(server.process.error(), HasSubstr("drained, stopped"));
  EXPECT_EQ(server.process.output(), "");
}

TEST(Serve, RunningRequestsFinishAfterSigterm) {
  // Long, because a sanitizer on a busy machine is slow: this tests the end, not the deadline.
  ReadyServer server(serve({"--drain-timeout-s", "600"}));
  ASSERT_GT(server.port, 0) << server.process.error();
  HttpExchange stream(server.port, "POST", "/v1/completions",
                      R"({"model": "python", "prompt": "import os", "max_tokens": 100,
                          "ignore_eos": true, "stream": true, "temperature": 0})");
  ASSERT_TRUE(stream.read_until("data: {"));
  server.process.send_signal(SIGTERM);
  const std::string answer = stream.read_all();
  EXPECT_THAT(answer, HasSubstr("\"finish_reason\":\"length\""));
  EXPECT_THAT(answer, HasSubstr("data: [DONE]"));
  EXPECT_EQ(server.process.wait(), 0) << server.process.error();
}

TEST(Serve, DrainsOnSighupToBeStartedAgain) {
  ReadyServer server(serve({"--drain-timeout-s", "600"}));
  ASSERT_GT(server.port, 0) << server.process.error();
  HttpExchange stream(server.port, "POST", "/v1/completions",
                      R"({"prompt": "import os", "max_tokens": 100, "ignore_eos": true,
                          "stream": true})");
  ASSERT_TRUE(stream.read_until("data: {"));
  server.process.send_signal(SIGHUP);
  EXPECT_THAT(stream.read_all(), HasSubstr("data: [DONE]"));
  EXPECT_EQ(server.process.wait(), 128 + SIGHUP) << server.process.error();
}

TEST(Serve, EndsWithTwoForWhatIsSetWrongly) {
  const std::vector<std::vector<std::string>> cases = {
      {"serve", "--model", "data/nowhere"},
      {"serve", "--model", "data/demo-llama/adapters"},
      {"serve", "--model", kModel, "--adapters", "data/nowhere"},
      {"serve", "--model", kModel, "--adapter", "x=data/nowhere"},
      {"serve", "--model", kModel, "--adapter-root", "data/nowhere"},
      {"serve", "--model", kModel, "--profile", "data/nowhere"}};
  for (std::vector<std::string> args : cases) {
    args.insert(args.end(), {"--port", "0", "--device", "host", "--pool-gb", "0.1", "--no-pin"});
    const Finished run = run_tandem(args);
    EXPECT_EQ(run.status, 2) << args[2] << " " << args.back() << "\n" << run.error;
  }
}

TEST(Serve, WarnsOfAnAddressForAllThatAsksForNoKey) {
  const std::vector<std::string> all = {"serve",  "--model", "data/nowhere", "--host", "0.0.0.0",
                                        "--port", "0"};
  EXPECT_THAT(run_tandem(all).error, HasSubstr("there is no api_key"));
  ProcessOptions options;
  options.environment["TANDEM_API_KEY"] = "sesame";
  EXPECT_THAT(run_tandem(all, std::move(options)).error, Not(HasSubstr("there is no api_key")));
}

TEST(Serve, ASecondSignalEndsItAtOnce) {
  ReadyServer server(serve({"--drain-timeout-s", "3600"}));
  ASSERT_GT(server.port, 0) << server.process.error();
  // A hundred long answers, which take far longer than the time between the two signals.
  HttpExchange stream(
      server.port, "POST", "/v1/completions",
      R"({"model": "demo-llama", "prompt": "import os", "max_tokens": 1000, "n": 100,
                          "ignore_eos": true, "stream": true})");
  ASSERT_TRUE(stream.read_until("data: {"));
  server.process.send_signal(SIGINT);
  ASSERT_TRUE(server.process.wait_for_error("draining"));
  server.process.send_signal(SIGINT);
  EXPECT_EQ(server.process.wait(), 128 + SIGINT) << server.process.error();
}

TEST(Serve, AnAdapterThatCannotBeLoadedEndsItWithItsName) {
  const Finished run = run_tandem(serve({"--adapter", "broken=data/demo-llama"}));
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.error, HasSubstr("tandem serve: "));
  EXPECT_THAT(run.error, HasSubstr("broken"));
}

TEST(Serve, APortInUseIsAClearError) {
  ReadyServer server(serve({}));
  ASSERT_GT(server.port, 0) << server.process.error();
  const Finished second =
      run_tandem({"serve", "--model", kModel, "--port", std::to_string(server.port)});
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.error, HasSubstr(std::to_string(server.port)));
  server.process.send_signal(SIGTERM);
  EXPECT_EQ(server.process.wait(), 0);
}

TEST(Serve, EveryFileOfConfigsStartsAndAnswers) {
  for (const auto& entry : std::filesystem::directory_iterator("../configs")) {
    if (entry.path().extension() != ".toml") continue;
    ProcessOptions options;
    options.folder = "..";
    ReadyServer server({"serve", "--config", "configs/" + entry.path().filename().string(),
                        "--port", "0", "--no-pin"},
                       std::move(options));
    ASSERT_GT(server.port, 0) << entry.path() << "\n" << server.process.error();
    const std::string models = HttpExchange(server.port, "GET", "/v1/models", "").read_all();
    const nlohmann::json listed =
        nlohmann::json::parse(models.substr(models.find("\r\n\r\n")), nullptr, false);
    ASSERT_TRUE(listed.is_object()) << models;
    const nlohmann::json request = {
        {"model", listed["data"][0]["id"]}, {"prompt", "a"}, {"max_tokens", 4}};
    EXPECT_THAT(HttpExchange(server.port, "POST", "/v1/completions", request.dump()).read_all(),
                StartsWith("HTTP/1.1 200"));
    server.process.send_signal(SIGTERM);
    EXPECT_EQ(server.process.wait(), 0) << entry.path();
  }
}

// Pins an adapter as the dashboard does, by the path that /v1/adapters reports; returns the answer.
std::string pin_as_told(int port, const std::string& name) {
  const std::string told = HttpExchange(port, "GET", "/v1/adapters", "").read_all();
  const nlohmann::json list =
      nlohmann::json::parse(told.substr(told.find("\r\n\r\n")), nullptr, false);
  for (const nlohmann::json& adapter : list.value("data", nlohmann::json::array())) {
    if (adapter["name"] != name) continue;
    const nlohmann::json body = {
        {"lora_name", name}, {"lora_path", adapter["path"]}, {"pinned", true}};
    return HttpExchange(port, "POST", "/v1/load_lora_adapter", body.dump()).read_all();
  }
  return told;
}

TEST(Serve, AnAdapterIsPinnedByThePathThatIsToldOfItWhereThatIsAllowed) {
  const std::string root = kAdapters + "/python";
  ReadyServer server(serve({"--adapter-root", root}));  // both relative, as in configs/
  ASSERT_GT(server.port, 0) << server.process.error();
  EXPECT_THAT(pin_as_told(server.port, "python"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(HttpExchange(server.port, "GET", "/v1/adapters", "").read_all(),
              HasSubstr("\"pinned\":true"));
  // The adapter is configured but not under the root, so it may not be loaded by its reported path.
  EXPECT_THAT(pin_as_told(server.port, "license"), StartsWith("HTTP/1.1 403"));
  server.process.send_signal(SIGTERM);
  EXPECT_EQ(server.process.wait(), 0);
}

// A folder with two adapters, "good" and "bad", the latter of which is cut off.
class ABadFolder : public ::testing::Test {
 protected:
  ABadFolder() {
    for (const char* name : {"good", "bad"}) {
      std::filesystem::copy(kAdapters + "/python", adapters_ / name);
    }
    std::filesystem::resize_file(adapters_ / "bad" / kWeights, 100);
  }
  std::vector<std::string> serve_with(std::vector<std::string> more) const {
    std::vector<std::string> args = {"serve", "--model", kModel, "--port", "0", "--no-pin"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  static std::string get(int port, const std::string& path) {
    return HttpExchange(port, "GET", path, "").read_all();
  }

  static constexpr const char* kWeights = "adapter_model.safetensors";
  testing::TempDir dir_;
  const std::filesystem::path adapters_ = dir_.path();
};

TEST_F(ABadFolder, IsLeftOutAndToldOfUntilItIsLoadedAfterAll) {
  const std::string folder = adapters_.string();
  ReadyServer server(serve_with({"--adapters", folder, "--adapter-root", folder}));
  ASSERT_GT(server.port, 0) << server.process.error();
  EXPECT_THAT(server.process.error(), HasSubstr("adapter 'bad' from " + folder + "/bad"));
  EXPECT_THAT(server.process.error(), HasSubstr("serves 'demo-llama' and 1 adapters"));
  EXPECT_THAT(get(server.port, "/v1/models"), HasSubstr("\"id\":\"good\""));
  EXPECT_THAT(get(server.port, "/v1/models"), Not(HasSubstr("\"id\":\"bad\"")));
  EXPECT_THAT(get(server.port, "/v1/adapters"),
              HasSubstr("\"refused\":[{\"name\":\"bad\",\"path\":\"" + folder + "/bad\""));
  EXPECT_THAT(get(server.port, "/metrics"), HasSubstr("tandem_adapters_refused{model_name=\"demo-"
                                                      "llama\"} 1"));
  std::filesystem::copy_file(adapters_ / "good" / kWeights, adapters_ / "bad" / kWeights,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(HttpExchange(server.port, "POST", "/v1/load_lora_adapter",
                           R"({"lora_name": "bad", "lora_path": "bad"})")
                  .read_all(),
              StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(get(server.port, "/v1/adapters"), HasSubstr("\"refused\":[]"));
  EXPECT_THAT(get(server.port, "/metrics"), HasSubstr("tandem_adapters_refused{model_name=\"demo-"
                                                      "llama\"} 0"));
}

TEST_F(ABadFolder, EndsTheStartWhereItIsNamedOrNoneMayBeBad) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--adapters", adapters_, "--strict-adapters"},
        std::vector<std::string>{"--adapter", "bad=" + (adapters_ / "bad").string()}}) {
    const Finished ended = run_tandem(serve_with(more));
    EXPECT_NE(ended.status, 0);
    EXPECT_THAT(ended.error, HasSubstr("adapter 'bad' from"));
  }
}

}  // namespace
}  // namespace tandem
