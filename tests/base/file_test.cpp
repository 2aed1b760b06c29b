#include "base/file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

TEST(FileIdentity, IsAnotherWhenContentSizeOrFileIs) {
  const testing::TempDir folder;
  const fs::path path = folder.path() / "a";
  std::ofstream(path) << "old";
  const File file = File::open(path).value();
  const FileIdentity before = file.identity().value();
  EXPECT_EQ(File::open(path).value().identity().value(), before);
  EXPECT_EQ(before.size, 3U);
  const auto written = fs::last_write_time(path);
  // Its times move in steps.
  FileIdentity after = before;
  while (after == before) {
    std::ofstream(path) << "new";
    fs::last_write_time(path, written);
    after = file.identity().value();
  }
  EXPECT_EQ(after.mtime_ns, before.mtime_ns);
  EXPECT_NE(after.ctime_ns, before.ctime_ns) << "which nobody can set back";
  fs::copy_file(path, folder.path() / "b");
  EXPECT_NE(File::open(folder.path() / "b").value().identity().value().inode, after.inode);
}

TEST(FileIdentity, VouchesOnlyForFilesThatHaveNotJustChanged) {
  FileIdentity identity;
  identity.ctime_ns = 10'000'000'000;
  EXPECT_FALSE(identity.vouches(20'000'000'000)) << "on a file system that is not to be relied on";
  identity.is_local = true;
  EXPECT_TRUE(identity.vouches(12'000'000'000));
  EXPECT_FALSE(identity.vouches(11'999'999'999));
  EXPECT_FALSE(identity.vouches(9'000'000'000)) << "a time to come";
}

TEST(ReplaceFile, KeepsTheModeAndLeavesNothingBeside) {
  const testing::TempDir folder;
  const fs::path file = folder.path() / "server.toml";
  std::ofstream(file) << "old";
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
  const Status done = replace_file(file, "new and longer");
  ASSERT_TRUE(done) << done.message();
  EXPECT_EQ(*read_text_file(file, 100), "new and longer");
  EXPECT_EQ(fs::status(file).permissions(),
            fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(ReplaceFile, FollowsALink) {
  const testing::TempDir folder;
  const fs::path file = folder.path() / "real";
  const fs::path link = folder.path() / "link";
  std::ofstream(file) << "old";
  fs::create_symlink("real", link);
  ASSERT_TRUE(replace_file(link, "new"));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(*read_text_file(file, 100), "new");
}

TEST(ReplaceFile, MakesAFileThatIsNotThereOnlyIfGivenItsMode) {
  const testing::TempDir folder;
  const fs::path file = folder.path() / "none";
  EXPECT_EQ(replace_file(file, "x").code(), StatusCode::not_found);
  EXPECT_FALSE(fs::exists(file));
  const Status done = replace_file(file, "new", 0640);
  ASSERT_TRUE(done) << done.message();
  EXPECT_EQ(*read_text_file(file, 100), "new");
  EXPECT_EQ(fs::status(file).permissions(),
            fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
  ASSERT_TRUE(replace_file(file, "newer", 0600));
  EXPECT_EQ(fs::status(file).permissions(),
            fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read)
      << "a file that is there keeps its mode";
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(ReplaceFile, RefusesWhatIsNoFile) {
  const testing::TempDir folder;
  EXPECT_EQ(replace_file(folder.path(), "x").code(), StatusCode::invalid_argument);
  EXPECT_EQ(replace_file(folder.path(), "x", 0600).code(), StatusCode::invalid_argument);
  const Status nowhere = replace_file(folder.path() / "none" / "file", "x", 0600);
  EXPECT_EQ(nowhere.code(), StatusCode::not_found) << nowhere.message();
}

}  // namespace
}  // namespace tandem
