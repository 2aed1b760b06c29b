// Tests adapters that wait for room in the host tier.
#include "engine/adapters/adapter_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <semaphore>
#include <thread>

#include "tests/support/peft_writer.h"
#include "tests/support/small_model.h"
#include "tests/support/test_device.h"

namespace tandem::test {
namespace {

using ::testing::HasSubstr;

// A tier with room for one adapter, which is held as if it were being copied to the device.
class FullHostTier : public ::testing::Test {
 protected:
  FullHostTier() {
    const std::size_t bytes =
        make_dummy_adapter(config_, DType::f32, 16, {"q_proj"}, 1).num_bytes + 4096;
    store_ = AdapterStore::create(*device_, config_, DType::f32, {8, 64, bytes}).value();
    EXPECT_TRUE(load("a").ok());
    held_ = store_->find("a")->home().copy().bytes;
    EXPECT_NE(held_, nullptr);
  }
  Status load(const std::string& name) {
    return store_->load(name, testing::write_peft_adapter(dir_, name, config_, 16, {"q_proj"}, 1),
                        false, false);
  }
  std::future<Status> wait_with(const std::string& name) {
    std::future<Status> loaded =
        std::async(std::launch::async, [this, name] { return load(name); });
    while (store_->host_tier().room().num_waiting() == 0) std::this_thread::yield();
    return loaded;
  }

  const ModelSpec config_ = small_model(2);
  testing::TempDir dir_;
  std::unique_ptr<Device> device_ = make_test_device();
  AdapterBytes held_;
  std::unique_ptr<AdapterStore> store_;
};

TEST_F(FullHostTier, LetsALoadInWhenTheCopyHasEnded) {
  std::future<Status> loaded = wait_with("b");
  held_.reset();
  EXPECT_TRUE(loaded.get().ok());
  EXPECT_EQ(store_->find("a")->residency(), Residency::on_disk);
  EXPECT_EQ(store_->find("b")->residency(), Residency::host);
}

TEST_F(FullHostTier, HoldsNobodyUpWhoNeedsNoRoom) {
  std::future<Status> waiting = wait_with("b");
  const auto refused = store_->load("c", (dir_.path() / "none").string(), false, false);
  EXPECT_EQ(refused.code(), StatusCode::not_found);
  EXPECT_TRUE(store_->unload("a").ok()) << "which makes no room while its bytes are held";
  held_.reset();
  EXPECT_TRUE(waiting.get().ok());
}

TEST_F(FullHostTier, IsWaitedForNoLongerWhenTheStoreEnds) {
  const AdapterLease a = store_->find("a");
  {
    std::future<Status> loaded = wait_with("b");
    held_.reset();
    ASSERT_TRUE(loaded.get().ok());
  }
  held_ = store_->find("b")->home().copy().bytes;
  store_->request_read(a);
  while (store_->host_tier().room().num_waiting() == 0) std::this_thread::yield();
  store_.reset();
  EXPECT_THAT(a->home().read_failure(0).message(), HasSubstr("has no room"));
}

TEST(AdapterStoreFiles, AreThoseThatTheAdapterWasReadFrom) {
  const ModelSpec config = small_model(2);
  const testing::TempDir dir;
  const auto device = make_test_device();
  AdapterStoreOptions options;
  options.now_ns = [] { return unix_now_ns() + 60'000'000'000; };  // the files count as old then
  const auto store = AdapterStore::create(*device, config, DType::f32, options).value();
  const std::string folder = testing::write_peft_adapter(dir, "a", config, 16, {"q_proj"}, 1);
  ASSERT_TRUE(store->load("a", folder, false, false).ok());
  ASSERT_TRUE(
      store->add("dummy", make_dummy_adapter(config, DType::f32, 8, {"q_proj"}, 2), false, false)
          .ok());
  const AdapterLease a = store->find("a");
  if (a->home().folder().source == nullptr) GTEST_SKIP() << "files here cannot be told by times";
  const std::string digest = a->contents().digest;
  for (const char* name : {"adapter_config.json", "adapter_model.safetensors"}) {
    const auto opened = store->open_file(digest, name);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(opened->file.size(), std::filesystem::file_size(dir.path() / "a" / name));
  }
  dir.write("a/secret", "a secret");
  for (const char* name : {"secret", "../a/adapter_config.json", "", "adapter_config.json/"}) {
    EXPECT_EQ(store->open_file(digest, name).status().code(), StatusCode::not_found) << name;
  }
  EXPECT_EQ(store->open_file(std::string(32, '0'), "adapter_config.json").status().code(),
            StatusCode::not_found);
  EXPECT_EQ(store->open_file(store->find("dummy")->contents().digest, "adapter_config.json")
                .status()
                .code(),
            StatusCode::not_found);
  testing::write_peft_adapter(dir, "a", config, 16, {"q_proj"}, 3);
  EXPECT_THAT(store->open_file(digest, "adapter_model.safetensors").status().message(),
              HasSubstr("have changed since they were read"));
}

TEST(AdapterStoreFiles, BesideTheWeightsMayBeOthersWhenTheSameWeightsAreLoadedAgain) {
  const ModelSpec config = small_model(2);
  const testing::TempDir dir;
  const auto device = make_test_device();
  const auto store = AdapterStore::create(*device, config, DType::f32, {}).value();
  const std::string folder = testing::write_peft_adapter(dir, "a", config, 16, {"q_proj"}, 1);
  ASSERT_TRUE(store->load("a", folder, false, false).ok());
  const AdapterFolder before = store->folder_of("a");
  const AdapterLease lease = store->find("a");
  EXPECT_FALSE(before.loaded.expired());
  ASSERT_TRUE(store->load("a", folder, true, false).ok());
  EXPECT_EQ(store->find("a"), lease);
  EXPECT_TRUE(before.loaded.expired()) << "its template would not be read again";
}

// The same content in another place must not be read through a link: neither for peers nor again.
TEST(AdapterStoreFiles, AreNotReadThroughALinkInTheirFoldersPlace) {
  namespace fs = std::filesystem;
  const ModelSpec config = small_model(2);
  const testing::TempDir dir;
  const auto device = make_test_device();
  const std::size_t one = make_dummy_adapter(config, DType::f32, 16, {"q_proj"}, 1).num_bytes;
  std::counting_semaphore<> news(0);
  const auto store = AdapterStore::create(*device, config, DType::f32, {8, 64, one + 4096}).value();
  store->on_news([&] { news.release(); });
  const auto write = [&](const char* name) {
    return testing::write_peft_adapter(dir, name, config, 16, {"q_proj"}, 1);
  };
  const std::string folder = write("a");
  ASSERT_TRUE(store->load("a", folder, false, false).ok());
  const AdapterLease a = store->find("a");
  ASSERT_TRUE(store->load("b", write("b"), false, false).ok()) << "a leaves memory";
  fs::rename(folder, dir.path() / "outside");
  fs::create_directory_symlink(dir.path() / "outside", folder);
  EXPECT_EQ(store->load("c", folder, false, false).code(), StatusCode::permission_denied);
  const std::string digest = a->contents().digest;
  ASSERT_TRUE(store->unload("b").ok()) << "which has the same digest";
  EXPECT_EQ(store->open_file(digest, "adapter_config.json").status().code(),
            StatusCode::permission_denied);
  store->request_read(a);
  while (a->home().read_failure(0) && news.try_acquire_for(std::chrono::seconds(30))) continue;
  EXPECT_THAT(a->home().read_failure(0).message(), HasSubstr("through a link"));
}

}  // namespace
}  // namespace tandem::test
