// Runs `tandem adapters` as a command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kModel = "data/demo-llama";
const std::string kPython = "data/demo-llama/adapters/python";
const std::string kLicense = "data/demo-llama/adapters/license";

class Adapters : public ::testing::Test {
 protected:
  Finished run(std::vector<std::string> args) const {
    args.insert(args.begin(), "adapters");
    ProcessOptions options;
    options.environment["TANDEM_REGISTRY"] = url_;
    return run_tandem(args, options);
  }
  nlohmann::json json_of(std::vector<std::string> args) const {
    args.emplace_back("--json");
    const Finished ran = run(std::move(args));
    EXPECT_EQ(ran.status, 0) << ran.error;
    return nlohmann::json::parse(ran.output, nullptr, false);
  }
  // Copies an adapter's folder, so that the test may change it.
  std::string copy_of(const std::string& folder) const {
    const fs::path to = dir_.path() / "adapter";
    fs::create_directories(to);
    fs::copy(folder, to, fs::copy_options::overwrite_existing | fs::copy_options::recursive);
    return to.string();
  }

  testing::TempDir dir_;
  std::string url_ = "sqlite:" + (dir_.path() / "registry.db").string();
};

TEST_F(Adapters, AreAddedListedShownVerifiedAndRemoved) {
  const std::string folder = copy_of(kPython);
  const Finished added = run({"add", "code", folder, "--model", kModel, "--owner", "ann"});
  ASSERT_EQ(added.status, 0) << added.error;
  EXPECT_THAT(added.output, StartsWith("added: 'code' version 1, digest "));
  EXPECT_EQ(added.error, "");
  EXPECT_THAT(run({"add", "code", folder, "--model", kModel, "--owner", "ann"}).output,
              StartsWith("unchanged: 'code' version 1 has this content"));

  copy_of(kLicense);  // replaces the content of the folder
  EXPECT_THAT(run({"add", "code", folder, "--model", kModel}).output,
              StartsWith("added: 'code' version 2"));
  EXPECT_THAT(run({"list"}).output, AllOf(StartsWith("NAME  VERSION  RANK  MODULES  TYPE  SIZE"),
                                          HasSubstr("\ncode  2        8     q,v      bf16  ")));
  const auto shown = json_of({"show", "code"});
  ASSERT_EQ(shown["versions"].size(), 2U);
  EXPECT_EQ(shown["versions"][0]["rank"], 16);
  EXPECT_EQ(shown["versions"][0]["owner"], "ann");
  EXPECT_EQ(shown["versions"][1]["source"], fs::canonical(folder).string());
  EXPECT_EQ(json_of({"list"})["adapters"].size(), 1U);
  EXPECT_EQ(json_of({"list", "--all"})["adapters"].size(), 2U);

  EXPECT_THAT(run({"verify"}).output, StartsWith("ok: 'code' version 2, digest "));
  const Finished old = run({"verify", "code", "--version", "1"});
  EXPECT_EQ(old.status, 1);
  EXPECT_THAT(old.output, AllOf(StartsWith("BAD: 'code' version 1: "), HasSubstr(folder),
                                HasSubstr("holds other weights")));

  EXPECT_EQ(run({"remove", "code", "--version", "2"}).output, "removed: 'code' version 2\n");
  EXPECT_EQ(json_of({"show", "code"})["versions"][0]["version"], 1);
  EXPECT_EQ(run({"remove", "code"}).output, "removed: 'code', 1 version\n");
  EXPECT_THAT(run({"list"}).output, HasSubstr("the registry has no adapters"));
}

// The digest is the one that a server reports for the adapter.
TEST_F(Adapters, HaveTheDigestThatAServerTells) {
  const auto added = json_of({"add", "license", kLicense, "--model", kModel, "--dtype", "f32"});
  ReadyServer server({"serve", "--model", kModel, "--adapter", "license=" + kLicense, "--port", "0",
                      "--device", "host", "--dtype", "f32", "--no-pin", "--cpu-workers", "0"});
  ASSERT_GT(server.port, 0) << server.process.error();
  HttpExchange exchange(server.port, "GET", "/v1/adapters", "");
  const std::string answer = exchange.read_all();
  const std::size_t body = answer.find("\r\n\r\n");
  ASSERT_NE(body, std::string::npos);
  const auto listed = nlohmann::json::parse(answer.substr(body + 4))["data"][0];
  for (const char* member : {"name", "digest", "rank", "modules", "bytes"}) {
    EXPECT_EQ(added[member], listed[member]) << member;
  }
}

TEST_F(Adapters, DamagedFilesAreFoundByVerify) {
  const std::string folder = copy_of(kPython);
  ASSERT_EQ(run({"add", "code", folder, "--model", kModel}).status, 0);
  {
    // Changes the lowest bits of the last value.
    std::fstream file(folder + "/adapter_model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-2, std::ios::end);
    const char was = static_cast<char>(file.get());
    file.seekp(-2, std::ios::end);
    file.put(static_cast<char>(was ^ 1));
  }
  EXPECT_THAT(run({"verify"}).output, HasSubstr("holds other weights"));
  fs::remove(folder + "/adapter_model.safetensors");
  const Finished gone = run({"verify", "--json"});
  EXPECT_EQ(gone.status, 1);
  const auto json = nlohmann::json::parse(gone.output);
  EXPECT_EQ(json["bad"], 1);
  EXPECT_THAT(json["adapters"][0]["problem"].get<std::string>(),
              HasSubstr("adapter_model.safetensors"));
}

TEST_F(Adapters, MistakesAreSaidWithTheRemedy) {
  EXPECT_THAT(run_tandem({"adapters", "list"}).error,
              HasSubstr("registry is missing; give --registry URL"));
  EXPECT_THAT(run({"list", "--registry", "mysql://x"}).error, HasSubstr("neither sqlite:PATH"));
  EXPECT_THAT(run({"list", "--registry", "sqlite:/nowhere/registry.db"}).error,
              HasSubstr("registry /nowhere/registry.db: No such file"));
  const Finished nobody = run({"list", "--registry", "etcd://127.0.0.1:1"});
  EXPECT_EQ(nobody.status, 1);
  EXPECT_THAT(nobody.error, AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("is it running")));
  EXPECT_THAT(run({"show", "code"}).error, HasSubstr("the registry has no adapter 'code'"));
  EXPECT_THAT(run({"add", "code", "/nowhere", "--model", kModel}).error,
              HasSubstr("adapter 'code': /nowhere: No such file"));
  EXPECT_THAT(run({"add", "a b", kPython, "--model", kModel}).error,
              HasSubstr("an adapter's name must be"));
  EXPECT_THAT(run({"add", "code", kModel, "--model", kModel}).error,
              HasSubstr("adapter_config.json"));
  for (const auto& [words, text] : std::vector<std::pair<std::vector<std::string>, const char*>>{
           {{"add", "code", kPython}, "model is missing"},
           {{"add", "code", "--model", kModel}, "which adapter?"},
           {{"show"}, "Usage: tandem adapters show NAME"},
           {{"remove", "code", "2"}, "unexpected argument '2'"},
           {{"lsit"}, "did you mean 'list'?"},
           {{"list", "--dtype", "f32"}, "unknown flag '--dtype'"}}) {
    const Finished ran = run(words);
    EXPECT_EQ(ran.status, 2) << words.front();
    EXPECT_THAT(ran.error, HasSubstr(text));
  }
}

TEST_F(Adapters, TakeTheServersFileOfSettings) {
  const std::string file = dir_.write("tandem.toml", "model = \"data/demo-llama\"\nport = 9000\n");
  EXPECT_EQ(run({"add", "code", kPython, "--config", file}).status, 0);
  EXPECT_EQ(run({"list", "--config", file}).status, 0);
}

}  // namespace
}  // namespace tandem
