#include "base/file/folder.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() {
    fs::create_directories(inside_ / "a");
    dir_.write("inside/a/file", "inside");
    dir_.write("outside/a/file", "outside");
  }
  // The contents of "file" in the folder, or the error message.
  std::string read(const fs::path& path, const LinkRule& links = {}) const {
    const Result<Folder> folder = Folder::open(path);
    if (!folder) return folder.status().message();
    const Result<File> file = folder->open_file("file", links);
    return file ? read_text(*file, 100).value() : file.status().message();
  }

  testing::TempDir dir_;
  const fs::path inside_ = dir_.path() / "inside";
  const fs::path outside_ = dir_.path() / "outside";
};

TEST_F(FolderTest, CallsItsFilesByTheirNamesAlone) {
  const Folder folder = Folder::open(inside_ / "a").value();
  EXPECT_EQ(folder.open_file("file", {})->path(), "file");
  EXPECT_EQ(folder.open_file("none", {}).status().message(),
            "cannot open none: No such file or directory");
  EXPECT_TRUE(folder.holds("file"));
  EXPECT_FALSE(folder.holds("none"));
}

TEST_F(FolderTest, TakesAbsoluteAndRelativePathsHoweverTheyEnd) {
  EXPECT_EQ(read(inside_ / "a"), "inside");
  EXPECT_EQ(read(inside_ / "." / "a" / ""), "inside");
  const fs::path before = fs::current_path();
  fs::current_path(inside_);
  EXPECT_EQ(read("a"), "inside");
  EXPECT_EQ(read("./a/"), "inside");
  fs::current_path(before);
}

TEST_F(FolderTest, FollowsNoLinkWhereverItIsInItsPath) {
  fs::create_directory_symlink(outside_ / "a", inside_ / "last");
  fs::create_directory_symlink(outside_, inside_ / "middle");
  fs::create_directory_symlink("a", inside_ / "within");
  fs::create_directory_symlink("nowhere", inside_ / "broken");
  for (const char* path : {"last", "last/", "middle/a", "within", "broken", "../outside/a"}) {
    const Status status = Folder::open(inside_ / path).status();
    EXPECT_EQ(status.code(), StatusCode::permission_denied) << path;
    EXPECT_THAT(status.message(), HasSubstr("through a link")) << path;
    EXPECT_THAT(status.message(), Not(HasSubstr(dir_.path().string()))) << path;
  }
  EXPECT_EQ(Folder::open(inside_ / "none").status().code(), StatusCode::not_found);
  EXPECT_EQ(Folder::open(inside_ / "a" / "file").status().code(), StatusCode::not_found);
}

TEST_F(FolderTest, OpensFilesOfWhatItOpenedWhateverTakesItsPlace) {
  const Folder folder = Folder::open(inside_ / "a").value();
  fs::rename(inside_ / "a", inside_ / "aside");
  fs::create_directory_symlink(outside_ / "a", inside_ / "a");
  EXPECT_EQ(read_text(folder.open_file("file", {}).value(), 100).value(), "inside");
  EXPECT_EQ(
      read_text(folder.open_file("file", {.anywhere = true, .roots = {}}).value(), 100).value(),
      "inside");
  EXPECT_THAT(read(inside_ / "a", {.anywhere = true, .roots = {}}), HasSubstr("through a link"))
      << "the rule is for links in the folder";
}

TEST(LiesUnder, AFolderAndWhatIsInItAndNothingBesideIt) {
  EXPECT_TRUE(lies_under("/a/b", "/a/b"));
  EXPECT_TRUE(lies_under("/a/b/c", "/a/b"));
  EXPECT_FALSE(lies_under("/a/bc", "/a/b"));
  EXPECT_FALSE(lies_under("/a", "/a/b"));
  EXPECT_FALSE(lies_under("/a", ""));
}

TEST_F(FolderTest, ResolvesLinksForWhoeverMeansThem) {
  fs::create_directory_symlink("a", inside_ / "within");
  EXPECT_EQ(resolve_links(inside_ / "within").value(), inside_ / "a");
  EXPECT_EQ(resolve_links(inside_ / "within" / ".." / "none").value(), inside_ / "none");
  fs::create_symlink("circle", inside_ / "circle");
  EXPECT_EQ(resolve_links(inside_ / "circle").status().code(), StatusCode::invalid_argument);
}

}  // namespace
}  // namespace tandem
