// Runs `tandem generate` as scripts do: real processes, their output, exit statuses and signals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/sanitized.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/generate/generate_args.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A sanitizer makes the start of a process much slower, so one adapter has to do.
const bool kAllAdapters = !sanitized();

nlohmann::json golden() {
  std::ifstream file("data/golden.json");
  return nlohmann::json::parse(file);
}

TEST(Generate, GivesTheSameTextOnDevicesThatShareTheModel) {
  const auto text_on = [](const char* devices) {
    const Finished done =
        run_tandem(generate({"-p", "Copyright (C)", "--max-tokens", "8", "--temperature", "0",
                             "--dtype", "float32", "--adapters", kAdapters, "--adapter", "license",
                             "--tensor-parallel", devices, "--threads", "3"}));
    EXPECT_EQ(done.status, 0) << done.error;
    return done.output;
  };
  const std::string text = text_on("1");
  EXPECT_EQ(text_on("2"), text);
  EXPECT_EQ(text_on("3"), text);  // the model has 8 heads
}

TEST(Generate, RefusesWhatRestRefuses) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--temperature", "2.5"}, "temperature must be between 0 and 2, not 2.5"},
      {{"--repetition-penalty", "3"}, "repetition_penalty must be between 0 and 2, not 3"},
      {{"--repetition-penalty", "0"}, "'repetition_penalty' must be a number above 0"},
      {{"--max-tokens", "0"}, "'max_tokens' must be at least 1"},
      {{"--min-tokens", "9", "--max-tokens", "8"}, "'min_tokens' (9) must not exceed"},
      {{"--stop", ""}, "'stop' must be a non-empty string"},
      {{"--stop", std::string(1025, 'a')}, "'stop' must be a non-empty string"},
      {{"--system", "Be brief."}, "add --chat"}};
  for (const auto& [flags, why] : cases) {
    std::vector<std::string> args = {"-p", "x"};
    args.insert(args.end(), flags.begin(), flags.end());
    const Finished run = run_tandem(generate(args));
    EXPECT_EQ(run.status, 2) << why;
    EXPECT_THAT(run.error, HasSubstr(why));
  }
  EXPECT_EQ(run_tandem(generate({"-p", "\xff"})).status, 2);
  for (const std::vector<std::string>& fine :
       {std::vector<std::string>{"--top-k", "-1"}, {"--top-p", "0"}}) {
    std::vector<std::string> args = {"-p", "x", "--max-tokens", "1"};
    args.insert(args.end(), fine.begin(), fine.end());
    EXPECT_EQ(run_tandem(generate(args)).status, 0) << fine.front();
  }
}

TEST(Generate, GivesTheGoldenTextsWithAndWithoutAdapters) {
  const nlohmann::json gold = golden();
  for (const nlohmann::json& one : gold["cases"]) {
    if (one["prompt"] != 5) continue;
    const std::string adapter = one["adapter"];
    if (!kAllAdapters && adapter != "base" && adapter != "python") continue;
    std::vector<std::string> args = generate(
        {"--dtype", "f32", "--ignore-eos", "--max-tokens", "48", "-p", gold["prompts"][5]["text"]});
    if (adapter != "base") {
      args.insert(args.end(), {"--adapters", kAdapters, "--adapter", adapter});
    }
    const Finished run = run_tandem(args);
    EXPECT_EQ(run.status, 0) << run.error;
    EXPECT_EQ(run.output, one["text"].get<std::string>() + "\n") << adapter;
    EXPECT_EQ(run.error, "") << adapter;
  }
}

TEST(Generate, ReadsThePromptFromStandardInputAndPrintsJson) {
  const nlohmann::json gold = golden();
  const nlohmann::json& one = gold["cases"][20];  // prompt 4, base model
  ASSERT_EQ(one["prompt"], 4);
  ASSERT_EQ(one["adapter"], "base");
  ProcessOptions options;
  options.input = gold["prompts"][4]["text"].get<std::string>() + "\n";
  const Finished run = run_tandem(
      generate({"--json", "--dtype", "f32", "--ignore-eos", "--max-tokens", "48"}), options);
  ASSERT_EQ(run.status, 0) << run.error;
  const nlohmann::json answer = nlohmann::json::parse(run.output);
  EXPECT_EQ(answer["text"], one["text"]);
  EXPECT_EQ(answer["token_ids"], one["output_ids"]);
  EXPECT_EQ(answer["finish_reason"], "length");
  EXPECT_EQ(answer["model"], "demo-llama");
  EXPECT_TRUE(answer["adapter"].is_null());
  EXPECT_EQ(answer["usage"]["completion_tokens"], 48);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], gold["prompts"][4]["ids"].size());
}

TEST(Generate, AppliesTheChatTemplateAndStops) {
  const nlohmann::json gold = golden();
  const Finished run =
      run_tandem(generate({"--chat", "--json", "--max-tokens", "24", "--stop", "Parameters", "-p",
                           "What does numpy.mean do?", "--dtype", "f32"}));
  ASSERT_EQ(run.status, 0) << run.error;
  const nlohmann::json answer = nlohmann::json::parse(run.output);
  // Prompt 3 is this question in the template's format.
  EXPECT_EQ(answer["usage"]["prompt_tokens"], gold["prompts"][3]["ids"].size());
  EXPECT_EQ(answer["text"], "Return the mean of the array elements.\n\n");
  EXPECT_EQ(answer["finish_reason"], "stop");
}

TEST(Generate, TakesAnAdapterByFolderAndByNameEqualsFolder) {
  const std::vector<std::string> common = {
      "-p", "This package provides", "--max-tokens", "8", "--dtype", "f32"};
  const auto with = [&](std::vector<std::string> adapter) {
    adapter.insert(adapter.end(), common.begin(), common.end());
    const Finished run = run_tandem(generate(std::move(adapter)));
    EXPECT_EQ(run.status, 0) << run.error;
    return run.output;
  };
  const std::string by_name = with({"--adapters", kAdapters, "--adapter", "cheader"});
  EXPECT_EQ(with({"--adapter", kAdapters + "/cheader"}), by_name);
  EXPECT_EQ(with({"--adapter", "mine=" + kAdapters + "/cheader"}), by_name);
  EXPECT_NE(with({}), by_name);
}

TEST(Generate, DummyWeightsNeedNoWeightFile) {
  const auto folder =
      std::filesystem::path(::testing::TempDir()) / ("tandem_dummy_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(kModel + "/config.json", folder / "config.json",
                             std::filesystem::copy_options::overwrite_existing);
  const auto run = [&](const std::string& seed) {
    return run_tandem({"generate", "--model", folder.string(), "--load-format", "dummy", "--seed",
                       seed, "--json", "--max-tokens", "8", "-p", "x", "--ignore-eos", "--no-pin"});
  };
  const Finished first = run("1");
  ASSERT_EQ(first.status, 0) << first.error;
  const auto ids = [](const Finished& finished) {
    return nlohmann::json::parse(finished.output)["token_ids"];
  };
  EXPECT_EQ(ids(first).size(), 8U);
  EXPECT_EQ(ids(run("1")), ids(first));
  EXPECT_NE(ids(run("2")), ids(first));
  std::filesystem::remove_all(folder);
}

TEST(Generate, FailsWhenItsAnswerCannotBeWritten) {
  for (const bool as_json : {false, true}) {
    std::vector<std::string> args = generate({"-p", "def read(", "--max-tokens", "4"});
    if (as_json) args.push_back("--json");
    ProcessOptions full_disk;
    full_disk.output_file = "/dev/full";
    const Finished finished = run_tandem(args, full_disk);
    EXPECT_EQ(finished.status, 1);
    EXPECT_THAT(finished.error, HasSubstr("cannot write to standard output"));
  }
}

TEST(Generate, AnInterruptKeepsWhatIsThereAndExitsWith130) {
  Process process(generate({"-p", "import os\n", "--max-tokens", "1000", "--ignore-eos"}));
  ASSERT_TRUE(process.wait_for_output("\n")) << process.error();
  process.send_signal(SIGINT);
  EXPECT_EQ(process.wait(), 130) << process.error();
  EXPECT_THAT(process.output(), Not(::testing::IsEmpty()));
  EXPECT_EQ(process.output().back(), '\n');
}

}  // namespace
}  // namespace tandem
