// Adapter files are missing, cut off, damaged, or change while they are read.
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

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(PeftAdapter, RefusesPickleAndNothingByName) {
  EXPECT_THAT(load().status().message(), HasSubstr("adapter_config.json"));
  EXPECT_EQ(load().status().code(), StatusCode::not_found);
  dir_.write("adapter_config.json", lora({"q_proj"}).dump());
  EXPECT_EQ(load().status().code(), StatusCode::not_found);
  EXPECT_THAT(load().status().message(), HasSubstr("adapter_model.safetensors"));
  dir_.write("adapter_model.bin", "pickle");
  EXPECT_THAT(load().status().message(), HasSubstr("a pickle, which is never read"));
  // A pipe in place of a file must not block.
  ASSERT_EQ(::mkfifo((dir_.path() / "adapter_model.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(load().status().message(), HasSubstr("not a regular file"));
}

// Messages go to clients, who must not learn where the server keeps its adapters.
TEST_F(PeftAdapter, NamesFilesButNotTheirFolder) {
  add_everywhere({"q_proj"});
  const auto damage = [&](const char* name, std::string_view contents) {
    write(lora({"q_proj"}));
    if (contents.empty()) {
      std::filesystem::remove(dir_.path() / name);
    } else {
      dir_.write(name, contents);
    }
    const Status status = load().status();
    EXPECT_THAT(status.message(), HasSubstr(name));
    EXPECT_THAT(status.message(), Not(HasSubstr(dir_.path().filename().string())));
    return status;
  };
  EXPECT_EQ(damage("adapter_config.json", "").code(), StatusCode::not_found);
  EXPECT_EQ(damage("adapter_config.json", "{}").code(), StatusCode::invalid_argument);
  EXPECT_EQ(damage("adapter_model.safetensors", "").code(), StatusCode::not_found);
  EXPECT_EQ(damage("adapter_model.safetensors", "short").code(), StatusCode::invalid_argument);
  // The message must not quote a file that is not what it was taken for.
  const Status secret = damage("adapter_config.json", "{root:x:0:0: \"secret\" 1e999}");
  EXPECT_THAT(secret.message(), AllOf(HasSubstr("line 1, column 2"), Not(HasSubstr("root"))));
  EXPECT_THAT(damage("adapter_config.json", "{\"a\": 1e99999}").message(), Not(HasSubstr("99999")));
  EXPECT_EQ(load_peft_adapter(dir_.path() / "none", base(), DType::f32).status().message(),
            "cannot open the folder: No such file or directory");
}

TEST_F(PeftAdapter, FollowsLinksWithinItsFolderAndOutOfItOnlyIfAllowed) {
  namespace fs = std::filesystem;
  add_everywhere({"q_proj"});
  write(lora({"q_proj"}));
  const fs::path snapshot = dir_.path() / "snapshots" / "1";
  fs::create_directories(snapshot);
  fs::create_directories(dir_.path() / "blobs");
  fs::rename(dir_.path() / "adapter_model.safetensors", dir_.path() / "blobs" / "w");
  fs::rename(dir_.path() / "adapter_config.json", snapshot / "config");
  fs::create_symlink("config", snapshot / "adapter_config.json");
  fs::create_symlink("../../blobs/w", snapshot / "adapter_model.safetensors");
  const auto load_with = [&](const LinkRule& links) {
    return load_peft_adapter(snapshot, base(), DType::f32, nullptr, unix_now_ns(), links).status();
  };
  const Status refused = load_with({});
  EXPECT_EQ(refused.code(), StatusCode::permission_denied);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("adapter_model.safetensors is a link"),
                                       HasSubstr("--follow-links-outside"), HasSubstr("blobs")));
  EXPECT_TRUE(load_with({.anywhere = true, .roots = {}}));
  EXPECT_TRUE(load_with({.anywhere = false, .roots = {fs::canonical(dir_.path())}}));
  EXPECT_FALSE(load_with({.anywhere = false, .roots = {fs::canonical(dir_.path()) / "blo"}}));
  // The message must not reveal whether the target exists.
  fs::remove(dir_.path() / "blobs" / "w");
  EXPECT_EQ(load_with({}).message(), refused.message());
}

TEST_F(PeftAdapter, RefusesFilesCutOffAnywhere) {
  add(1, "q_proj", 1);
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
  add(1, "q_proj", 1);
  add(1, "up_proj", 1);
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
  add_everywhere({"q_proj", "k_proj", "v_proj", "up_proj"}, 40);
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

// A process with write access beside the folder can replace it by a link at any moment.
TEST_F(PeftAdapter, IsReadFromItsOwnFolderWhileLinksOutTakeItsPlace) {
  namespace fs = std::filesystem;
  add_everywhere({"q_proj"}, 8);
  write(lora({"q_proj"}, 8));
  fs::create_directories(dir_.path() / "outside");
  const fs::path folder = dir_.path() / "root" / "a";
  fs::create_directories(folder);
  for (const char* name : {"adapter_config.json", "adapter_model.safetensors"}) {
    fs::copy_file(dir_.path() / name, dir_.path() / "outside" / name);
  }
  tensors_.clear();
  add_everywhere({"q_proj"}, 4);
  write(lora({"q_proj"}, 4));
  for (const char* name : {"adapter_config.json", "adapter_model.safetensors"}) {
    fs::rename(dir_.path() / name, folder / name);
  }
  std::atomic<bool> stop{false};
  std::thread meddler([&] {
    const fs::path aside = dir_.path() / "root" / "aside";
    while (!stop) {
      fs::rename(folder, aside);
      fs::create_directory_symlink(dir_.path() / "outside", folder);
      fs::remove(folder);
      fs::rename(aside, folder);
    }
  });
  int loads = 0;
  for (int round = 0; round < 3000; ++round) {
    const Result<Adapter> adapter = load_peft_adapter(folder, base(), DType::f32);
    if (!adapter) continue;
    ++loads;
    EXPECT_EQ(adapter->max_rank, 4);
  }
  stop = true;
  meddler.join();
  EXPECT_EQ(load_peft_adapter(folder, base(), DType::f32)->max_rank, 4);
  RecordProperty("loads", loads);
}

}  // namespace
}  // namespace tandem::peft_test
