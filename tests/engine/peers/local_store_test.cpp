#include "engine/peers/local_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/file/file.h"
#include "base/log/log.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string digest_of(char digit) {
  return std::string(32, digit);
}

class LocalStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { log::set_level(log::Level::off); }
  void open(std::uint64_t max_bytes) {
    store_.reset();
    auto opened = LocalStore::open(folder_, max_bytes);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    store_ = std::move(*opened);
  }
  std::unique_ptr<IncomingAdapter> begin(std::uint64_t bytes) {
    auto incoming = store_->begin(bytes);
    EXPECT_TRUE(incoming.ok()) << incoming.status().message();
    return incoming ? std::move(*incoming) : nullptr;
  }
  // Adds an adapter of that many bytes; returns whether it was kept.
  LocalStore::Kept add(char digit, std::size_t bytes) {
    auto incoming = begin(bytes);
    EXPECT_TRUE(incoming->begin_file("weights").ok());
    EXPECT_TRUE(incoming->append(std::string(bytes, digit)).ok());
    auto kept = store_->keep(std::move(incoming), digest_of(digit));
    EXPECT_TRUE(kept.ok()) << kept.status().message();
    return *kept;
  }
  bool has(char digit) const { return fs::exists(folder_ / digest_of(digit) / "weights"); }

  testing::TempDir dir_;
  fs::path folder_ = dir_.path() / "made" / "store";
  std::unique_ptr<LocalStore> store_;
};

TEST_F(LocalStoreTest, KeepsWhatIsWholeUnderItsDigest) {
  open(1000);
  EXPECT_FALSE(store_->find(digest_of('a')).has_value());
  add('a', 300);
  const auto found = store_->find(digest_of('a'));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*read_text_file(found->folder / "weights", 1000), std::string(300, 'a'));
  EXPECT_EQ(store_->used_bytes(), 300U);
  {
    const auto given_up = begin(200);
    ASSERT_TRUE(given_up->begin_file("weights").ok());
    EXPECT_TRUE(given_up->append(std::string(150, 'b')).ok());
    EXPECT_EQ(store_->used_bytes(), 500U);
    EXPECT_THAT(given_up->append(std::string(51, 'b')).message(), HasSubstr("200"));
  }
  EXPECT_EQ(store_->used_bytes(), 300U);
  store_->drop(digest_of('a'));
  EXPECT_FALSE(has('a'));
  EXPECT_EQ(store_->used_bytes(), 0U);
}

TEST_F(LocalStoreTest, NeitherFindsNorWritesThroughALinkInAFoldersPlace) {
  open(1000);
  add('a', 300);
  fs::create_directory(dir_.path() / "outside");
  fs::rename(folder_ / digest_of('a'), dir_.path() / "aside");
  fs::create_directory_symlink(dir_.path() / "aside", folder_ / digest_of('a'));
  EXPECT_FALSE(store_->find(digest_of('a')).has_value());
  const auto incoming = begin(100);
  fs::rename(incoming->folder(), dir_.path() / "moved");
  fs::create_directory_symlink(dir_.path() / "outside", incoming->folder());
  ASSERT_TRUE(incoming->begin_file("weights").ok());
  EXPECT_FALSE(fs::exists(dir_.path() / "outside" / "weights"));
  EXPECT_TRUE(fs::exists(dir_.path() / "moved" / "weights"));
}

TEST_F(LocalStoreTest, LetsGoWhatWasUsedLeastRecently) {
  open(1000);
  add('a', 400);
  add('b', 400);
  (void)store_->find(digest_of('a'));
  add('c', 400);
  EXPECT_TRUE(has('a'));
  EXPECT_FALSE(has('b'));
  EXPECT_TRUE(has('c'));
  EXPECT_EQ(store_->used_bytes(), 800U);
}

TEST_F(LocalStoreTest, NeverLetsGoWhatIsInUse) {
  open(1000);
  add('a', 400);
  const auto user = std::make_shared<int>(0);
  store_->used_by(digest_of('a'), user);
  const auto held = add('b', 400);
  EXPECT_EQ(store_->begin(400).status().code(), StatusCode::resource_exhausted);
  EXPECT_THAT(store_->begin(1001).status().message(), HasSubstr("adapter_store_gb"));
  EXPECT_TRUE(has('a'));
  EXPECT_TRUE(has('b'));
  begin(200).reset();
  store_->used_by(digest_of('b'), std::make_shared<int>(0));  // its user is gone already
  add('c', 200);
  add('d', 200);
  EXPECT_FALSE(has('c')) << "all else is in use";
  EXPECT_TRUE(has('a'));
}

TEST_F(LocalStoreTest, IsAsItWasAtTheNextStart) {
  open(1000);
  add('a', 300);
  add('b', 300);
  add('c', 300);
  // The times of folders may be too coarse to distinguish these moments.
  for (const auto& [digit, age] : {std::pair('a', 10), std::pair('b', 30), std::pair('c', 20)}) {
    fs::last_write_time(folder_ / digest_of(digit),
                        fs::file_time_type::clock::now() - std::chrono::seconds(age));
  }
  store_.reset();
  fs::create_directories(folder_ / ".incoming-abcdef");
  dir_.write("made/store/.incoming-abcdef/weights", "half");
  dir_.write("made/store/notes.txt", "somebody's own");
  open(1000);
  EXPECT_EQ(store_->used_bytes(), 900U);
  EXPECT_FALSE(fs::exists(folder_ / ".incoming-abcdef"));
  EXPECT_TRUE(fs::exists(folder_ / "notes.txt"));
  add('d', 300);
  EXPECT_FALSE(has('b'));
  EXPECT_TRUE(has('a'));
  open(300);
  EXPECT_EQ(store_->used_bytes(), 300U);
  EXPECT_TRUE(has('d'));
}

TEST_F(LocalStoreTest, BelongsToOneProcess) {
  open(1000);
  const auto second = LocalStore::open(folder_, 1000);
  EXPECT_EQ(second.status().code(), StatusCode::already_exists);
  EXPECT_THAT(second.status().message(), HasSubstr("another server"));
  store_.reset();
  open(1000);
}

TEST_F(LocalStoreTest, HasNoHalfOfAnAdapterUnderItsDigest) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may remove anything";
  open(1000);
  const fs::path locked = add('a', 300).folder / "locked";
  fs::create_directories(locked);
  std::ofstream(locked / "file") << "stays";
  fs::permissions(locked, fs::perms::owner_read | fs::perms::owner_exec);
  store_->drop(digest_of('a'));
  EXPECT_FALSE(fs::exists(folder_ / digest_of('a')));
  add('a', 200);
  EXPECT_EQ(store_->used_bytes(), 200U);
  for (const auto& each : fs::directory_iterator(folder_)) {
    if (fs::exists(each.path() / "locked")) {
      fs::permissions(each.path() / "locked", fs::perms::owner_all);
    }
  }
  open(1000);
  EXPECT_EQ(store_->used_bytes(), 200U);
}

TEST_F(LocalStoreTest, TellsNoPathsWhenTheDiskFails) {
  open(1000);
  const auto expect_told = [&](const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::unavailable);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("No such file or directory"), HasSubstr("its log says more"),
                      Not(HasSubstr(folder_.string()))));
  };
  auto incoming = begin(10);
  fs::remove_all(folder_);
  expect_told(incoming->begin_file("weights"));
  expect_told(store_->keep(std::move(incoming), digest_of('a')).status());
  expect_told(store_->begin(10).status());
}

TEST_F(LocalStoreTest, NoticesThatAFolderWasTakenAway) {
  open(1000);
  add('a', 300);
  fs::remove_all(folder_ / digest_of('a'));
  EXPECT_FALSE(store_->find(digest_of('a')).has_value());
  EXPECT_EQ(store_->used_bytes(), 0U);
}

}  // namespace
}  // namespace tandem
