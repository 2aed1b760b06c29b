#include "shm/region.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numa.h>
#include <numaif.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace tandem {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

constexpr std::size_t kBytes = 3 << 12;

std::filesystem::path file_of(const std::string& name) {
  return "/dev/shm" + name;
}

// Makes a region whose process is killed before it can clean up; returns the region's name.
std::string leave_a_region_behind() {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto region = ShmRegion::create("orphan", kBytes);
    const std::string name = region.ok() ? region->name() : "";
    if (::write(ends[1], name.data(), name.size()) < 0) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  }
  ::close(ends[1]);
  char name[256] = {};
  EXPECT_GT(::read(ends[0], name, sizeof name - 1), 0);
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  return name;
}

TEST(ShmRegion, IsZeroPrivateAndNamedAfterItsMaker) {
  auto region = ShmRegion::create("arena", kBytes);
  ASSERT_TRUE(region.ok()) << region.status().message();
  EXPECT_THAT(region->name(), StartsWith("/tandem-" + std::to_string(::getpid()) + "-"));
  EXPECT_THAT(region->name(), HasSubstr("-arena"));
  ASSERT_EQ(region->bytes(), kBytes);
  EXPECT_TRUE(std::all_of(region->data(), region->data() + kBytes,
                          [](std::byte value) { return value == std::byte{0}; }));
  struct stat info {};
  ASSERT_EQ(::stat(file_of(region->name()).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600);
}

TEST(ShmRegion, HasAllItsPagesFromTheStart) {
  auto region = ShmRegion::create("arena", kBytes);
  ASSERT_TRUE(region.ok());
  struct stat info {};
  ASSERT_EQ(::stat(file_of(region->name()).c_str(), &info), 0);
  EXPECT_GE(static_cast<std::size_t>(info.st_blocks) * 512, kBytes);
}

TEST(ShmRegion, ShowsOthersWhatItsMakerWrites) {
  auto region = ShmRegion::create("arena", kBytes);
  ASSERT_TRUE(region.ok());
  auto reader = ShmRegion::open(region->name(), ShmRegion::Access::read_only);
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  ASSERT_EQ(reader->bytes(), kBytes);
  std::memcpy(region->data() + 100, "tandem", 6);
  EXPECT_EQ(std::memcmp(reader->data() + 100, "tandem", 6), 0);
}

TEST(ShmRegion, IsUnlinkedWithItsMakerAndNotWithItsReaders) {
  std::string name;
  {
    auto region = ShmRegion::create("arena", kBytes);
    ASSERT_TRUE(region.ok());
    name = region->name();
    { auto reader = ShmRegion::open(name, ShmRegion::Access::read_only); }
    EXPECT_TRUE(std::filesystem::exists(file_of(name)));
    ShmRegion moved = std::move(region).value();
    EXPECT_TRUE(std::filesystem::exists(file_of(name)));
  }
  EXPECT_FALSE(std::filesystem::exists(file_of(name)));
  EXPECT_EQ(ShmRegion::open(name, ShmRegion::Access::read_only).status().code(),
            StatusCode::not_found);
}

TEST(ShmRegion, HasNoNameAndAllItsMemoryWhereItIsPrivate) {
  auto region = ShmRegion::create_private(kBytes);
  ASSERT_TRUE(region.ok()) << region.status().message();
  EXPECT_EQ(region->name(), "");
  ASSERT_EQ(region->bytes(), kBytes);
  EXPECT_TRUE(std::all_of(region->data(), region->data() + kBytes,
                          [](std::byte value) { return value == std::byte{0}; }));
  std::memcpy(region->data() + kBytes - 6, "tandem", 6);
  const ShmRegion moved = std::move(region).value();
  EXPECT_EQ(std::memcmp(moved.data() + kBytes - 6, "tandem", 6), 0);

  const auto refused = ShmRegion::create_private(std::size_t{1} << 50);
  EXPECT_EQ(refused.status().code(), StatusCode::resource_exhausted);
  EXPECT_THAT(refused.status().message(), HasSubstr("host_tier_gb"));
}

TEST(ShmRegion, SaysHowMuchIsMissingAndWhatToDo) {
  auto region = ShmRegion::create("arena", std::size_t{1} << 50);
  ASSERT_FALSE(region.ok());
  EXPECT_EQ(region.status().code(), StatusCode::resource_exhausted);
  EXPECT_THAT(region.status().message(), HasSubstr("1125.9 TB"));
  EXPECT_THAT(region.status().message(), HasSubstr("host_tier_gb"));
  EXPECT_THAT(region.status().message(), HasSubstr("--shm-size"));
}

TEST(ShmRegion, IsRefusedWhereTheSizeOfDevShmOrTheMemoryEnds) {
  EXPECT_TRUE(check_shm_room(100, {100, false}, {100, {}}).ok());
  const Status by_size = check_shm_room(101, {100, false}, {1000, {}});
  EXPECT_EQ(by_size.code(), StatusCode::resource_exhausted);
  EXPECT_THAT(by_size.message(), HasSubstr("/dev/shm has no room for 101 B (100 B are free)"));
  // Without this check the kernel would kill a process to free memory, probably this one.
  const Status by_memory = check_shm_room(101, {1000, false}, {100, {}});
  EXPECT_EQ(by_memory.code(), StatusCode::resource_exhausted);
  EXPECT_THAT(by_memory.message(), HasSubstr("no memory for 101 B"));
  EXPECT_THAT(by_memory.message(), HasSubstr("host_tier_gb"));
}

TEST(ShmRegion, NamesTheFileOfAContainersLimit) {
  const MemoryLimit limit{500'000'000, 100'000'000, "/sys/fs/cgroup/x/memory.max"};
  const Status status = check_shm_room(200'000'000, {1'000'000'000, false}, {100'000'000, limit});
  EXPECT_EQ(status.code(), StatusCode::resource_exhausted);
  EXPECT_THAT(status.message(),
              HasSubstr("100.0 MB free of 500.0 MB (/sys/fs/cgroup/x/memory.max)"));
  EXPECT_THAT(status.message(), HasSubstr("lower host_tier_gb"));
}

TEST(ShmRegion, IsRefusedWhereDevShmIsReadOnlyAndSaysSo) {
  const Status status = check_shm_room(100, {0, true}, {1000, {}});
  EXPECT_EQ(status.code(), StatusCode::permission_denied);
  EXPECT_THAT(status.message(), HasSubstr("/dev/shm is mounted read-only"));
  EXPECT_THAT(status.message(), HasSubstr("remount,rw"));
}

TEST(ShmRegion, WithoutASizeIsOneThatIsBeingMade) {
  const std::string name =
      "/tandem-" + std::to_string(::getpid()) + "-00000000-control-" + std::to_string(::getpid());
  const int fd = ::shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_GE(fd, 0);
  const auto opened = ShmRegion::open(name, ShmRegion::Access::read_only);
  EXPECT_EQ(opened.status().code(), StatusCode::unavailable);
  EXPECT_THAT(opened.status().message(), HasSubstr("not ready"));
  ::close(fd);
  ::shm_unlink(name.c_str());
}

TEST(ShmRegion, LiesOnTheNodeItWasAskedFor) {
  if (::numa_available() < 0) GTEST_SKIP() << "this machine has no NUMA nodes";
  const int node = ::numa_max_node();
  auto region = ShmRegion::create("arena", kBytes, node);
  ASSERT_TRUE(region.ok()) << region.status().message();
  for (std::size_t at = 0; at < kBytes; at += 4096) {
    int found = -1;
    region->data()[at] = std::byte{1};
    ASSERT_EQ(::get_mempolicy(&found, nullptr, 0, region->data() + at, MPOL_F_NODE | MPOL_F_ADDR),
              0);
    EXPECT_EQ(found, node);
  }
}

TEST(ShmRegion, AskedForANodeThatIsNotThereLiesAnywhere) {
  for (const int node : {-1, 1000, 1 << 30}) {
    auto region = ShmRegion::create("arena", kBytes, node);
    ASSERT_TRUE(region.ok()) << node << ": " << region.status().message();
    region->data()[kBytes - 1] = std::byte{1};
  }
}

TEST(ShmRegion, IsFoundByItsPurposeWhileItsMakerLives) {
  const auto names = [] {
    std::vector<std::string> all;
    for (const FoundShmRegion& found : find_shm_regions("test-find")) {
      EXPECT_EQ(found.maker, ::getpid());
      all.push_back(found.name);
    }
    return all;
  };
  EXPECT_THAT(names(), IsEmpty());
  {
    auto first = ShmRegion::create("test-find", kBytes);
    auto second = ShmRegion::create("test-find", kBytes);
    auto other = ShmRegion::create("test-find-not", kBytes);
    ASSERT_TRUE(first.ok() && second.ok() && other.ok());
    EXPECT_THAT(names(), UnorderedElementsAre(first->name(), second->name()));
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST(ShmRegion, OfADeadEngineIsRemovedByTheNextStart) {
  const std::string name = leave_a_region_behind();
  ASSERT_TRUE(std::filesystem::exists(file_of(name)));
  EXPECT_THAT(remove_stale_shm_regions(), Contains(name.substr(1)));
  EXPECT_FALSE(std::filesystem::exists(file_of(name)));
}

TEST(ShmRegion, OfAProcessThatEndsAtOnceIsUnlinkedAndStaysMapped) {
  auto region = ShmRegion::create("arena", kBytes);
  ASSERT_TRUE(region.ok());
  auto foreign = ShmRegion::open(region->name(), ShmRegion::Access::read_write);
  ASSERT_TRUE(foreign.ok());
  unlink_own_shm_regions();
  EXPECT_FALSE(std::filesystem::exists(file_of(region->name())));
  region->data()[0] = std::byte{5};
  EXPECT_EQ(foreign->data()[0], std::byte{5});
}

TEST(ShmRegion, OfALivingEngineIsLeftAlone) {
  auto region = ShmRegion::create("arena", kBytes);
  ASSERT_TRUE(region.ok());
  EXPECT_THAT(remove_stale_shm_regions(), Not(Contains(region->name().substr(1))));
  EXPECT_TRUE(std::filesystem::exists(file_of(region->name())));
}

TEST(ShmRegion, OfADeadPidWhoseLockIsHeldIsLeftAlone) {
  // A region made in another container on the same /dev/shm has a pid that does not exist here.
  auto region = ShmRegion::create("arena", kBytes);
  ASSERT_TRUE(region.ok());
  const std::string foreign =
      "/tandem-" + std::to_string((1 << 22) + 1) + "-00000000-test-" + std::to_string(::getpid());
  std::filesystem::rename(file_of(region->name()), file_of(foreign));
  EXPECT_THAT(remove_stale_shm_regions(), Not(Contains(foreign.substr(1))));
  EXPECT_TRUE(std::filesystem::exists(file_of(foreign)));
  std::filesystem::remove(file_of(foreign));
}

void truncate_to(const std::string& name, off_t bytes) {
  const int fd = ::shm_open(name.c_str(), O_RDWR, 0);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(::ftruncate(fd, bytes), 0);
  ::close(fd);
}

TEST(ShmRegion, ReadsAsZerosWhereAnotherProcessHasTruncatedIt) {
  auto region = ShmRegion::create("outbox", kBytes);
  ASSERT_TRUE(region.ok());
  region->survive_truncation();
  std::memset(region->data(), 7, kBytes);
  truncate_to(region->name(), 1 << 12);
  EXPECT_EQ(region->data()[0], std::byte{7});
  EXPECT_EQ(region->data()[kBytes - 1], std::byte{0});
  region->data()[1 << 12] = std::byte{5};
  EXPECT_EQ(region->data()[1 << 12], std::byte{5});
  truncate_to(region->name(), 0);
  EXPECT_EQ(region->data()[0], std::byte{0});
}

TEST(ShmRegionDeathTest, EndsTheProcessWhereNothingChecksWhatIsTruncated) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto watched = ShmRegion::create("outbox", kBytes);
  auto region = ShmRegion::create("arena", kBytes);
  ASSERT_TRUE(region.ok() && watched.ok());
  watched->survive_truncation();
  truncate_to(region->name(), 0);
  EXPECT_DEATH(std::memset(region->data(), 1, kBytes), "");
}

TEST(ShmRegion, LeavesFilesOfOthersAlone) {
  const std::string name = "/tandem-notapid-" + std::to_string(::getpid());
  const int fd = ::shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_GE(fd, 0);
  ::close(fd);
  EXPECT_THAT(remove_stale_shm_regions(), Not(Contains(name.substr(1))));
  EXPECT_TRUE(std::filesystem::exists(file_of(name)));
  ::shm_unlink(name.c_str());
}

}  // namespace
}  // namespace tandem
