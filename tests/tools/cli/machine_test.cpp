#include "tools/cli/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fmt/format.h>

#include "base/threads/thread_cpus.h"
#include "tools/setup/model_presets.h"

namespace tandem {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

TEST(OpenFiles, AreAllowedAsFarAsTheHardLimitGoes) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_GE(before.rlim_max, 200U);
  rlimit low = before;
  low.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(allow_open_files(50), 100U);
  EXPECT_EQ(allow_open_files(200), 200U);
  if (before.rlim_max != RLIM_INFINITY) {
    EXPECT_EQ(allow_open_files(before.rlim_max + 1), before.rlim_max);
  }
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(ParseCpus, ReadsNumbersAndRanges) {
  const std::vector<int> usable = cpus_of_thread();
  ASSERT_FALSE(usable.empty());
  const int first = usable.front();
  EXPECT_THAT(*parse_cpus(fmt::format("{}", first)), ElementsAreArray({first}));
  EXPECT_THAT(*parse_cpus(fmt::format("{}-{}", first, first)), ElementsAreArray({first}));
  std::string all;
  for (const int cpu : usable) all += fmt::format("{}{}", all.empty() ? "" : ",", cpu);
  EXPECT_THAT(*parse_cpus(all), ElementsAreArray(usable));
}

TEST(ParseCpus, RefusesWhatIsNoListOfUsableCores) {
  const int first = cpus_of_thread().front();
  for (const char* text : {"", "x", "1-", "-1", "3-1", "0,", ",0", "0 1", "0-99999999999"}) {
    EXPECT_FALSE(parse_cpus(text)) << "'" << text << "'";
  }
  EXPECT_THAT(parse_cpus(fmt::format("{0},{0}", first)).status().message(), HasSubstr("twice"));
  EXPECT_THAT(parse_cpus("1000000").status().message(),
              HasSubstr("cpus: this process may not run on core 1000000; it may on"));
  EXPECT_THAT(parse_cpus("x", "worker_cpus").status().message(), HasSubstr("worker_cpus: 'x'"));
}

TEST(Machine, KnowsItsMemory) {
  EXPECT_GT(resident_bytes(), std::size_t{1} << 16);
  EXPECT_FALSE(cpu_name().empty());
}

TEST(ModelPresets, HaveThePublishedSizes) {
  // The number of parameters by shape: embedding (and head), layers, norms.
  const auto parameters = [](const ModelSpec& c) {
    const std::int64_t norms = c.layers.front().norms == NormPlace::around ? 4 : 2;
    const std::int64_t layer = c.hidden_size * (2 * c.q_size() + 2 * c.kv_size()) +
                               3 * c.hidden_size * c.mlp().size + norms * c.hidden_size;
    const std::int64_t heads = c.tie_word_embeddings ? 1 : 2;
    return heads * c.vocab_size * c.hidden_size + c.num_layers() * layer + c.hidden_size;
  };
  EXPECT_EQ(parameters(*model_preset("llama-3.2-1b")), 1235814400);
  EXPECT_EQ(parameters(*model_preset("llama-2-7b")), 6738415616);
  EXPECT_EQ(parameters(*model_preset("llama-2-70b")), 68976648192);
  EXPECT_EQ(parameters(*model_preset("llama-3-8b")), 8030261248);
  EXPECT_EQ(parameters(*model_preset("mistral-7b-v0.1")), 7241732096);
  EXPECT_EQ(parameters(*model_preset("gemma-2-9b")), 9241705984);
  EXPECT_FALSE(model_preset("gpt-5"));
}

TEST(ModelPresets, HaveTheWindowsOfTheirFamilies) {
  const ModelSpec gemma = *model_preset("gemma-2-9b");
  EXPECT_EQ(gemma.layer(0).attention.window, 4096);
  EXPECT_EQ(gemma.layer(1).attention.window, 0);
  EXPECT_EQ(model_preset("mistral-7b-v0.1")->layer(31).attention.window, 4096);
  EXPECT_EQ(model_preset("llama-3-8b")->layer(31).attention.window, 0);
}

}  // namespace
}  // namespace tandem
