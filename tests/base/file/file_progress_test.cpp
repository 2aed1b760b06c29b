// Readers of a file that is still being written.
#include "base/file/file_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <fstream>
#include <future>
#include <memory>

#include "base/file/file.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

const FileProgress::Time kBegin{std::chrono::hours(1)};

TEST(FileProgress, LetsReadersHaveWhatIsThereAndWaitForTheRest) {
  FileProgress progress(10);
  progress.grow(4);
  EXPECT_TRUE(progress.wait_for(4).ok());
  auto waits = std::async(std::launch::async, [&] { return progress.wait_for(10); });
  progress.grow(5);
  progress.grow(5);  // bytes beyond the announced size do not exist
  EXPECT_TRUE(waits.get().ok());
  progress.end({});
  EXPECT_THAT(progress.wait_for(11).message(), HasSubstr("10 bytes of the 10"));
}

TEST(FileProgress, TellsThoseWhoWaitWhyNoMoreComes) {
  FileProgress progress(10);
  progress.grow(4);
  auto waits = std::async(std::launch::async, [&] { return progress.wait_for(5); });
  progress.end({StatusCode::unavailable, "it broke off"});
  EXPECT_EQ(waits.get().message(), "it broke off");
  progress.end({});
  EXPECT_EQ(progress.wait_for(5).message(), "it broke off") << "the first end counts";
  EXPECT_TRUE(progress.wait_for(4).ok()) << "what is there stays";
}

TEST(FileProgress, RefusesAFileThatEndsEarly) {
  FileProgress progress(10);
  progress.grow(4);
  progress.end({});
  EXPECT_EQ(progress.wait_for(5).code(), StatusCode::invalid_argument);
  EXPECT_THAT(progress.wait_for(5).message(), HasSubstr("4 bytes of the 10"));
}

TEST(FileProgress, WaitsForNoneThatIsSilent) {
  const FileProgress progress(10, std::chrono::steady_clock::now(), milliseconds(1));
  EXPECT_EQ(progress.wait_for(1).code(), StatusCode::unavailable);
}

TEST(FileProgress, ExpectsTheRestAtThePaceOfWhatCame) {
  FileProgress progress(100, kBegin);
  EXPECT_EQ(progress.rest(kBegin + milliseconds(5)), std::chrono::steady_clock::duration::max());
  progress.grow(20, kBegin + milliseconds(5));
  EXPECT_EQ(progress.rest(kBegin + milliseconds(5)), milliseconds(20));
  EXPECT_EQ(progress.rest(kBegin + milliseconds(10)), milliseconds(40)) << "it has become slower";
  progress.grow(80, kBegin + milliseconds(12));
  EXPECT_EQ(progress.rest(kBegin + milliseconds(50)), milliseconds(0));
  EXPECT_EQ(progress.last_growth(), kBegin + milliseconds(12));
}

TEST(FileProgress, MakesAFileWaitForWhatIsReadOfIt) {
  const testing::TempDir dir;
  std::ofstream out(dir.path() / "f");
  out << "abc" << std::flush;
  File file = File::open(dir.path() / "f").value();
  const auto progress = std::make_shared<FileProgress>(6);
  progress->grow(3);
  file.follow(progress);
  EXPECT_EQ(file.size(), 6U);
  const File moved = std::move(file);
  std::array<char, 6> read{};
  auto waits = std::async(std::launch::async, [&] { return moved.read(2, read.data(), 4); });
  out << "def" << std::flush;
  progress->grow(3);
  EXPECT_TRUE(waits.get().ok());
  EXPECT_STREQ(std::string(read.data(), 4).c_str(), "cdef");
}

}  // namespace
}  // namespace tandem
