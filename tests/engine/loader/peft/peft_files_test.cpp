// Adapter files that are missing, cut off, damaged, or change while they are read.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "tests/engine/loader/peft/peft_adapter_fixture.h"
#include "tests/support/test_seed.h"

namespace tandem::peft_test {
namespace {

using ::testing::HasSubstr;

TEST_F(PeftAdapter, RefusesPickleAndNothingByName) {
  EXPECT_THAT(load().status().message(), HasSubstr("adapter_config.json"));
  EXPECT_EQ(load().status().code(), StatusCode::not_found);
  dir_.write("adapter_config.json", lora({"q_proj"}).dump());
  EXPECT_EQ(load().status().code(), StatusCode::not_found);
  EXPECT_THAT(load().status().message(), HasSubstr("adapter_model.safetensors"));
  dir_.write("adapter_model.bin", "pickle");
  EXPECT_THAT(load().status().message(), HasSubstr("a pickle, which is never read"));
  // A pipe instead of a file must not hang.
  ASSERT_EQ(::mkfifo((dir_.path() / "adapter_model.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(load().status().message(), HasSubstr("not a regular file"));
}

TEST_F(PeftAdapter, RefusesFilesCutOffAnywhere) {
  add(1, Module::q, 1);
  write(lora({"layers.1.self_attn.q_proj"}, 1));
  ASSERT_TRUE(load());
  const std::filesystem::path path = dir_.path() / "adapter_model.safetensors";
  const auto size = std::filesystem::file_size(path);
  for (auto cut = size; cut-- > 0;) {
    std::filesystem::resize_file(path, cut);
    ASSERT_FALSE(load()) << cut;
  }
  write(lora({"layers.1.self_attn.q_proj"}, 1));
  for (auto cut = std::filesystem::file_size(dir_.path() / "adapter_config.json"); cut-- > 0;) {
    std::filesystem::resize_file(dir_.path() / "adapter_config.json", cut);
    ASSERT_FALSE(load()) << cut;
  }
}

TEST_F(PeftAdapter, SurvivesDamageToBothFiles) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  add(1, Module::q, 1);
  add(1, Module::up, 1);
  const std::string config =
      lora({"layers.1.self_attn.q_proj", "model.layers.1.mlp.up_proj"}, 1).dump();
  write(Json::parse(config));
  std::ifstream in(dir_.path() / "adapter_model.safetensors", std::ios::binary);
  const std::string weights{std::istreambuf_iterator<char>(in), {}};
  for (int round = 0; round < 1500; ++round) {
    std::string damaged_config = config;
    std::string damaged_weights = weights;
    for (int edit = 0; edit < 3; ++edit) {
      std::string& text = random() % 2 == 0 ? damaged_config : damaged_weights;
      char& at = text[random() % std::min<std::size_t>(text.size(), 700)];
      at = random() % 2 == 0 ? static_cast<char>(random())
                             : static_cast<char>(at ^ (1 << random() % 8));
    }
    dir_.write("adapter_config.json", damaged_config);
    dir_.write("adapter_model.safetensors", damaged_weights);
    const Result<Adapter> adapter = load_as(DType::bf16);
    if (!adapter) {
      EXPECT_FALSE(adapter.status().message().empty());
    }
  }
}

TEST_F(PeftAdapter, LoadsWholeOrFailsWhileItsFilesComeAndGo) {
  add_everywhere({Module::q, Module::k, Module::v, Module::up}, 40);
  write(lora({"q_proj", "k_proj", "v_proj", "up_proj"}, 40));
  const std::string digest = load()->digest;
  const std::filesystem::path path = dir_.path() / "adapter_model.safetensors";
  const std::filesystem::path aside = dir_.path() / "aside";
  std::filesystem::copy_file(path, aside);
  std::atomic<bool> stop{false};
  std::thread meddler([&] {
    std::error_code ignored;
    while (!stop) {
      std::filesystem::resize_file(path, 5000, ignored);
      std::filesystem::remove(path, ignored);
      std::filesystem::copy_file(aside, dir_.path() / "new", ignored);
      std::filesystem::rename(dir_.path() / "new", path, ignored);
    }
  });
  for (int round = 0; round < 300; ++round) {
    const Result<Adapter> adapter = load();
    if (adapter) {
      EXPECT_EQ(adapter->digest, digest);
    }
  }
  stop = true;
  meddler.join();
}

}  // namespace
}  // namespace tandem::peft_test
