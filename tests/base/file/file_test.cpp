#include "base/file/file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(FileIdentity, IsAnotherWhenContentSizeOrFileIs) {
  const testing::TempDir folder;
  const fs::path path = folder.path() / "a";
  std::ofstream(path) << "old";
  const File file = File::open(path).value();
  const FileIdentity before = file.identity().value();
  EXPECT_EQ(File::open(path).value().identity().value(), before);
  EXPECT_EQ(before.size, 3U);
  const auto written = fs::last_write_time(path);
  // ctime advances in steps.
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

Status open_in(const fs::path& folder, const std::string& name) {
  return File::open_in(folder, name, {}).status();
}

TEST(FileOpen, TellsTheMistakesOfOthersFromOurs) {
  const testing::TempDir folder;
  const fs::path& at = folder.path();
  const auto both = [&](const std::string& name) {
    const Status plain = File::open(at / name).status();
    EXPECT_EQ(open_in(at, name).code(), plain.code()) << name;
    return plain;
  };
  EXPECT_EQ(both("none").code(), StatusCode::not_found);
  fs::create_symlink("circle", at / "circle");
  EXPECT_EQ(both("circle").code(), StatusCode::invalid_argument);
  EXPECT_THAT(both("circle").message(), HasSubstr("links lead in a circle"));
  EXPECT_EQ(both(std::string(5000, 'x')).code(), StatusCode::invalid_argument);
  EXPECT_EQ(both(std::string(300, 'x')).code(), StatusCode::invalid_argument);
  std::ofstream(at / "file") << "x";
  EXPECT_EQ(File::open(at / "file" / "below").status().code(), StatusCode::not_found);
  EXPECT_EQ(open_in(at / "file", "below").code(), StatusCode::not_found);
  // Opening any of these must not block.
  fs::create_directory(at / "folder");
  ASSERT_EQ(::mkfifo((at / "pipe").c_str(), 0600), 0);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT((at / "socket").string().size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, (at / "socket").c_str());
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  for (const char* name : {"folder", "pipe", "socket"}) {
    EXPECT_EQ(both(name).code(), StatusCode::invalid_argument);
    EXPECT_THAT(both(name).message(), HasSubstr("is not a regular file"));
  }
  ::close(listener);
  if (::geteuid() != 0) {  // root may open anything
    fs::permissions(at / "file", fs::perms::none);
    EXPECT_EQ(both("file").code(), StatusCode::permission_denied);
  }
}

TEST(FileOpen, NamesTheRemedyOfTooFewDescriptors) {
  const testing::TempDir folder;
  std::ofstream(folder.path() / "file") << "x";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status plain = File::open(folder.path() / "file").status();
  const Status below = open_in(folder.path(), "file");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  for (const Status& status : {plain, below}) {
    EXPECT_EQ(status.code(), StatusCode::unavailable) << status.message();
    EXPECT_THAT(status.message(), HasSubstr("ulimit -n"));
  }
}

TEST(FileOpenIn, CallsTheFileByItsNameAlone) {
  const testing::TempDir folder;
  std::ofstream(folder.path() / "file") << "text";
  const File file = File::open_in(folder.path(), "file", {}).value();
  EXPECT_EQ(file.path(), "file");
  EXPECT_EQ(*read_text(file, 100), "text");
  EXPECT_EQ(open_in(folder.path(), "none").message(),
            "cannot open none: No such file or directory");
}

TEST(FileOpenIn, TellsNothingOfWhatALinkOutsideLeadsTo) {
  const testing::TempDir outside;
  const testing::TempDir folder;
  std::ofstream(outside.path() / "file") << "secret";
  ASSERT_EQ(::mkfifo((outside.path() / "pipe").c_str(), 0600), 0);
  for (const char* target : {"file", "pipe", "none", "."}) {
    fs::create_symlink(outside.path() / target, folder.path() / "link");
    const Status status = open_in(folder.path(), "link");
    EXPECT_EQ(status.code(), StatusCode::permission_denied) << target;
    EXPECT_THAT(status.message(), StartsWith("link is a link that leads nowhere or out of"));
    fs::remove(folder.path() / "link");
  }
  std::ofstream(folder.path() / "real") << "x";
  fs::create_symlink("real", folder.path() / "link");
  EXPECT_TRUE(open_in(folder.path(), "link"));
  // The folder's own path may have links.
  fs::create_directory_symlink(folder.path(), outside.path() / "folder");
  EXPECT_TRUE(open_in(outside.path() / "folder", "link"));
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
