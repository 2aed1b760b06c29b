// Runs the command line as scripts do: real processes, their output, exit statuses and signals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/temp_dir.h"
#include "tests/tools/generate/generate_args.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A file that is removed at the end of the test.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& text)
      : path_(std::filesystem::path(::testing::TempDir()) /
              ("tandem_cli_" + std::to_string(getpid()) + ".toml")) {
    std::ofstream(path_) << text;
  }
  ~ScratchFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(Cli, TellsItsVersionCommitCompilerAndLibraries) {
  const Finished version = run_tandem({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.output, StartsWith("tandem 0."));
  for (const char* part : {"compiler ", "oneDNN ", "CUDA "}) {
    EXPECT_THAT(version.output, HasSubstr(part));
  }
  EXPECT_EQ(version.error, "");
  EXPECT_EQ(run_tandem({"version"}).output, version.output);
}

TEST(Cli, ExplainsItsCommandsAndTheirFlags) {
  EXPECT_THAT(run_tandem({"--help"}).output, HasSubstr("serve"));
  for (const std::string command : {"serve", "generate"}) {
    const Finished help = run_tandem({command, "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.output, StartsWith("Usage: tandem " + command));
    for (const char* flag :
         {"--model DIR", "--adapters DIR", "--device auto|cuda|host", "--dtype auto|bf16|f16|f32",
          "--load-format auto|dummy", "--config FILE", "TANDEM_MODEL", "key model"}) {
      EXPECT_THAT(help.output, HasSubstr(flag));
    }
  }
  const std::string serve = run_tandem({"serve", "-h"}).output;
  for (const char* flag :
       {"--adapter NAME=DIR", "--adapter-root DIR", "--host ADDR", "--port N", "--api-key KEY"}) {
    EXPECT_THAT(serve, HasSubstr(flag));
  }
  EXPECT_THAT(run_tandem({"bench", "--help"}).output, HasSubstr("engine"));
  EXPECT_EQ(run_tandem({"help", "serve"}).output, serve);
  EXPECT_EQ(run_tandem({"help", "bench", "serve"}).output,
            run_tandem({"bench", "serve", "--help"}).output);
}

TEST(Cli, AConfigFileIsGoodForEveryCommandAndAMisspeltKeyForNone) {
  const ScratchFile typo("adapter_rot = [\"x\"]\n");
  for (const char* name : {"bench serve", "bench tokenizer", "bench route", "generate", "simulate",
                           "route", "pick", "man", "pin show", "profile"}) {
    std::istringstream words(name);
    const std::vector<std::string> command{std::istream_iterator<std::string>(words), {}};
    for (const char* file : {"demo.toml", "host.toml", "cluster/route.toml"}) {
      std::vector<std::string> args = command;
      args.insert(args.end(), {"--config", "../configs/" + std::string(file), "--print-config"});
      const Finished run = run_tandem(args);
      EXPECT_EQ(run.status, 0) << name << " " << file << ": " << run.error;
    }
    std::vector<std::string> args = command;
    args.insert(args.end(), {"--config", typo.path(), "--print-config"});
    const Finished refused = run_tandem(args);
    EXPECT_EQ(refused.status, 2) << name;
    EXPECT_THAT(refused.error, StartsWith("tandem " + std::string(name) + ": "));
    EXPECT_THAT(refused.error,
                HasSubstr("unknown key 'adapter_rot'; did you mean 'adapter_root'?"));
  }
}

TEST(Cli, UsageErrorsExitWithTwoAndNameTheRemedy) {
  const Finished nothing = run_tandem({});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.error, HasSubstr("Commands:"));

  const Finished command = run_tandem({"genrate"});
  EXPECT_EQ(command.status, 2);
  EXPECT_THAT(command.error, HasSubstr("unknown command 'genrate'; did you mean 'generate'?"));

  const Finished flag = run_tandem({"serve", "--modle", "x"});
  EXPECT_EQ(flag.status, 2);
  EXPECT_THAT(flag.error,
              StartsWith("tandem serve: unknown flag '--modle'; did you mean '--model'?"));

  const Finished stray = run_tandem({"serve", "--model", "x", "y"});
  EXPECT_EQ(stray.status, 2);
  EXPECT_THAT(stray.error, HasSubstr("unexpected argument 'y'"));

  const Finished missing = run_tandem({"serve"});
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.error, HasSubstr("model is missing; give --model DIR"));

  const Finished level = run_tandem({"serve", "--model", "x", "--log-level", "loud"});
  EXPECT_EQ(level.status, 2);
  EXPECT_THAT(level.error,
              HasSubstr("log_level cannot be read: unknown log level 'loud': debug, info"));

  const Finished twice = run_tandem({"serve", "--port", "1", "--port", "2"});
  EXPECT_EQ(twice.status, 2);
  EXPECT_THAT(twice.error, HasSubstr("--port"));

  const Finished value = run_tandem({"serve", "--model", "x", "--port", "70000"});
  EXPECT_EQ(value.status, 2);
  EXPECT_THAT(value.error, HasSubstr("port must be between 0 and 65535, not 70000 (from --port)"));

  const Finished choice = run_tandem({"serve", "--model", "x", "--device", "tpu"});
  EXPECT_EQ(choice.status, 2);
  EXPECT_THAT(choice.error, HasSubstr("device must be auto, cuda, host, not 'tpu'"));
}

TEST(Cli, PointsToWhatOtherServersFlagsAreHere) {
  const auto said = [](std::vector<std::string> args) {
    args.insert(args.begin(), "serve");
    const Finished run = run_tandem(args);
    EXPECT_EQ(run.status, 2);
    return run.error;
  };
  EXPECT_THAT(said({"--model", "x", "--enable-lora"}), HasSubstr("leave it out"));
  EXPECT_THAT(said({"--model", "x", "--lora-modules", "a=b", "c=d"}),
              StartsWith("tandem serve: there is no --lora-modules; --adapter NAME=DIR names one"));
  EXPECT_THAT(said({"--model", "x", "--max-loras", "4"}), HasSubstr("--max-device-adapters"));
  EXPECT_THAT(said({"--model", "x", "--gpu-memory-utilization=0.9"}), HasSubstr("--pool-gb"));
  EXPECT_THAT(said({"--model", "x", "-tp", "2"}), HasSubstr("here it is --tensor-parallel"));
  EXPECT_THAT(said({"--model", "x", "-pp", "2"}), HasSubstr("--tensor-parallel N shares"));
  EXPECT_THAT(said({"--model", "x", "--enable-auto-tool-choice"}), HasSubstr("--tool-call-parser"));
  EXPECT_THAT(said({"meta-llama/Llama-2-7b-hf"}), HasSubstr("a model is named by --model"));
  EXPECT_THAT(run_tandem({"generate", "--model", "meta-llama/Llama-2-7b-hf", "-p", "x"}).error,
              HasSubstr("`hf download meta-llama/Llama-2-7b-hf --local-dir DIR`"));
}

TEST(Cli, TakesTheWordsOfBooleansAndTheNamesOfTypes) {
  const auto printed = [](std::vector<std::string> args) {
    args.insert(args.begin(), {"serve", "--model", "x", "--print-config"});
    const Finished run = run_tandem(args);
    EXPECT_EQ(run.status, 0) << run.error;
    return run.output;
  };
  for (const std::vector<std::string>& off : {std::vector<std::string>{"--prefix-cache", "false"},
                                              {"--prefix-cache=false"},
                                              {"--prefix-cache", "off"},
                                              {"--no-prefix-cache"}}) {
    EXPECT_THAT(printed(off), HasSubstr("prefix_cache = false"));
  }
  EXPECT_THAT(printed({"--prefix-cache", "true", "--port", "1"}), HasSubstr("prefix_cache = true"));
  EXPECT_EQ(run_tandem({"serve", "--model", "x", "--prefix-cache", "maybe"}).status, 2);
  EXPECT_EQ(run_tandem({"serve", "--model", "x", "--prefix-cache=maybe"}).status, 2);
  for (const char* name : {"bfloat16", "float16", "half", "float32", "float", "auto", "bf16"}) {
    EXPECT_THAT(printed({"--dtype", name}), HasSubstr(std::string("dtype = \"") + name + "\""));
  }
  EXPECT_EQ(run_tandem(generate({"-p", "x", "--max-tokens", "1", "--dtype", "float32"})).status, 0);
}

TEST(Cli, RefusesAWrongAdapterBeforeTheWeightsAreRead) {
  const testing::TempDir folder;
  const Finished none = run_tandem(generate({"-p", "x", "--adapter", "a=no/such"}));
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.error,
              AllOf(HasSubstr("adapter 'a' from /"), HasSubstr("/no/such: cannot open the folder"),
                    Not(HasSubstr("loading"))));
  std::filesystem::create_symlink(
      std::filesystem::absolute(kAdapters) / "python" / "adapter_model.safetensors",
      folder.path() / "adapter_model.safetensors");
  std::filesystem::copy(std::filesystem::path(kAdapters) / "python" / "adapter_config.json",
                        folder.path());
  const std::string named = "a=" + folder.path().string();
  const Finished link = run_tandem(generate({"-p", "x", "--adapter", named}));
  EXPECT_EQ(link.status, 2);
  EXPECT_THAT(link.error, HasSubstr("--follow-links-outside"));
  const Finished allowed =
      run_tandem(generate({"-p", "x", "--max-tokens", "1", "--adapter", named,
                           "--follow-links-outside", "--served-model-name", "base"}));
  EXPECT_EQ(allowed.status, 0) << allowed.error;
  EXPECT_THAT(allowed.error, Not(HasSubstr("was made for the base model")));
}

TEST(Cli, SaysThatNcclIsNotForHostDevices) {
  const Finished run = run_tandem(
      generate({"-p", "x", "--threads", "2", "--tensor-parallel", "2", "--collectives", "nccl"}));
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.error, HasSubstr("collectives: nccl is for GPUs"));
  const Finished unknown = run_tandem(generate({"-p", "x", "--collectives", "mpi"}));
  EXPECT_NE(unknown.status, 0);
  EXPECT_THAT(unknown.error, HasSubstr("auto, own, nccl"));
}

TEST(Cli, SaysWhichGpusCannotShareAModel) {
  const auto refused = [](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"generate", "--model",           kModel, "-p", "x", "--device",
                                     "cuda",     "--tensor-parallel", "2"};
    args.insert(args.end(), more.begin(), more.end());
    const Finished run = run_tandem(args);
    EXPECT_EQ(run.status, 2);
    return run.error;
  };
  EXPECT_THAT(refused({"--gpus", "0-2"}),
              HasSubstr("gpus: 0-2 names 3 GPUs, but tensor_parallel is 2"));
  EXPECT_THAT(refused({"--gpus", "all"}), HasSubstr("'all' is not a list"));
}

TEST(Cli, WarnsOnceOfAdaptersOfAnotherBase) {
  const testing::TempDir folder;
  for (const char* name : {"a", "b"}) {
    const std::filesystem::path to = folder.path() / name;
    std::filesystem::copy(std::filesystem::path(kAdapters) / "python", to);
    std::ifstream in(to / "adapter_config.json");
    nlohmann::json config = nlohmann::json::parse(in);
    config["base_model_name_or_path"] = "meta-llama/Llama-2-7b-hf";
    std::ofstream(to / "adapter_config.json") << config;
  }
  const Finished run = run_tandem(generate(
      {"-p", "x", "--max-tokens", "1", "--adapters", folder.path().string(), "--adapter", "a"}));
  EXPECT_EQ(run.status, 0) << run.error;
  const std::string text =
      "was made for the base model 'meta-llama/Llama-2-7b-hf', and 'demo-llama'";
  const std::size_t first = run.error.find(text);
  ASSERT_NE(first, std::string::npos) << run.error;
  EXPECT_EQ(run.error.find(text, first + 1), std::string::npos) << run.error;
}

TEST(Cli, FailuresExitWithOneAndNameTheThing) {
  const Finished cuda =
      run_tandem({"generate", "--model", kModel, "-p", "x", "--device", "cuda", "--gpus", "1000"});
  EXPECT_EQ(cuda.status, 1);
  EXPECT_THAT(cuda.error, HasSubstr("device cuda: "));
  EXPECT_THAT(cuda.error, HasSubstr("--device host"));
}

TEST(Cli, AWrongModelIsNamedAndExitsWithTwo) {
  const testing::TempDir gguf;
  gguf.write("model.gguf", "GGUF");
  const testing::TempDir empty;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"no/such", "there is no folder no/such"},
      {"no/such.gguf", "there is no file no/such.gguf"},
      {"turboderp/Llama2-7B-exl2", "the name promises EXL2"},
      {"/no/such", "/no/such is neither a folder nor one of the shapes"},
      {gguf.path().string(), "holds a GGUF file; name the file itself"},
      {(gguf.path() / "model.gguf").string(), "model.gguf: ends within its header"},
      {std::string(kModel) + "/model.safetensors", "is a file, but no GGUF file; name the folder"},
      {std::string(kAdapters) + "/python", "is an adapter; name its base model here"},
      {empty.path().string(), "has no config.json"}};
  for (const auto& [model, why] : cases) {
    const Finished run = run_tandem({"generate", "--model", model, "-p", "x", "--device", "host"});
    EXPECT_EQ(run.status, 2) << model;
    EXPECT_THAT(run.error, AllOf(StartsWith("tandem generate: model: "), HasSubstr(why)));
    EXPECT_EQ(run.output, "");
  }
}

// systemd does not restart a service that ended with 2, because a restart would not help.
TEST(Cli, MistakesThatShowAtTheStartExitWithTwo) {
  const Finished empty = run_tandem(generate({}));
  EXPECT_EQ(empty.status, 2);
  EXPECT_THAT(empty.error, HasSubstr("the prompt is empty; give -p TEXT"));

  const Finished preset = run_tandem({"generate", "--model", "llama-3.2-1b", "-p", "x"});
  EXPECT_EQ(preset.status, 2);
  EXPECT_THAT(preset.error, HasSubstr("--load-format dummy"));

  const Finished gigabytes = run_tandem(generate({"-p", "x", "--pool-gb", "1e30"}));
  EXPECT_EQ(gigabytes.status, 2);
  EXPECT_THAT(gigabytes.error, HasSubstr("pool_gb: a page pool has at most"));
  const Finished pages = run_tandem(generate({"-p", "x", "--pool-pages", "1073741824"}));
  EXPECT_EQ(pages.status, 2);
  EXPECT_THAT(pages.error,
              HasSubstr("pool_pages is no longer a setting (from --pool-pages); use pool_gb"));

  const Finished folder =
      run_tandem({"serve", "--model", kModel, "--adapters", "no/such", "--port", "0"});
  EXPECT_EQ(folder.status, 2);  // with 1 a server would be restarted endlessly
  EXPECT_THAT(folder.error, HasSubstr("no/such"));

  const Finished name =
      run_tandem(generate({"-p", "x", "--adapters", kAdapters, "--adapter", "pyton"}));
  EXPECT_EQ(name.status, 2);
  EXPECT_THAT(name.error, HasSubstr("'pyton'"));
  EXPECT_THAT(name.error, HasSubstr("python"));

  const Finished adapter =
      run_tandem({"serve", "--model", kModel, "--adapter", "a", "--port", "0"});
  EXPECT_EQ(adapter.status, 2);
  EXPECT_THAT(adapter.error, HasSubstr("'a' is not NAME=DIR"));
}

TEST(Cli, FlagsWinOverVariablesAndVariablesOverFiles) {
  const ScratchFile file("port = 1111\nmax_queue = 7\nhost = \"file\"\nmodel = \"m\"\n");
  ProcessOptions options;
  options.environment = {
      {"TANDEM_CONFIG", file.path()}, {"TANDEM_PORT", "2222"}, {"TANDEM_HOST", "variable"}};
  const Finished shown =
      run_tandem({"serve", "--host", "flag", "--print-config"}, std::move(options));
  EXPECT_EQ(shown.status, 0) << shown.error;
  EXPECT_THAT(shown.output, HasSubstr("max_queue = 7  # " + file.path() + ":2\n"));
  EXPECT_THAT(shown.output, HasSubstr("port = 2222  # TANDEM_PORT\n"));
  EXPECT_THAT(shown.output, HasSubstr("host = \"flag\"  # --host\n"));
  EXPECT_THAT(shown.output, HasSubstr("max_connections = 1024  # default\n"));
}

TEST(Cli, NeverPrintsTheApiKey) {
  ProcessOptions options;
  options.environment = {{"TANDEM_API_KEY", "s3cret-key"}};
  const Finished shown = run_tandem({"serve", "--print-config"}, std::move(options));
  EXPECT_EQ(shown.status, 0);
  EXPECT_THAT(shown.output + shown.error, Not(HasSubstr("s3cret-key")));
  EXPECT_THAT(shown.output, HasSubstr("api_key = (set)"));
}

TEST(Cli, AnUnknownKeyOfTheConfigFileIsAUsageErrorWithItsLine) {
  const ScratchFile file("# mine\nprot = 1\n");
  const Finished run = run_tandem({"serve", "--config", file.path()});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.error, HasSubstr(file.path() + ":2: unknown key 'prot'; did you mean 'port'?"));
}

}  // namespace
}  // namespace tandem
