// A real control group for tests, which needs root; without it such tests are skipped.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/limits/cgroup.h"

namespace tandem::testing {

// Made below the top of the hierarchy that has `controller`, with a group "inner" below it. The
// destructor removes both, which requires that no process is left in them.
class RealCgroup {
 public:
  static std::optional<RealCgroup> make(std::string_view controller) {
    static int made = 0;
    for (const CgroupChain& chain : find_cgroups(controller)) {
      RealCgroup group(chain.version,
                       chain.folders.back() / fmt::format("tandem-test-{}-{}", ::getpid(), ++made));
      std::error_code failure;
      if (!std::filesystem::create_directory(group.folder_, failure)) continue;
      group.made_ = true;
      const bool enabled =
          chain.version == 1 ||
          std::filesystem::exists(group.folder_ / fmt::format("{}.max", controller));
      if (!enabled) continue;
      if (std::filesystem::create_directory(group.inner(), failure)) return group;
    }
    return std::nullopt;
  }
  RealCgroup(RealCgroup&& other) noexcept
      : version_(other.version_),
        folder_(std::move(other.folder_)),
        made_(std::exchange(other.made_, false)) {}
  RealCgroup& operator=(RealCgroup&&) = delete;
  ~RealCgroup() {
    if (!made_) return;
    ::rmdir(inner().c_str());
    ::rmdir(folder_.c_str());
  }

  // Returns false if the controller is not enabled here.
  bool limit_cpus(double cpus) const {
    const auto time_us = static_cast<int>(cpus * 100'000);
    if (version_ == 2) return write("cpu.max", fmt::format("{} 100000", time_us));
    return write("cpu.cfs_period_us", "100000") &&
           write("cpu.cfs_quota_us", std::to_string(time_us));
  }
  bool limit_memory(std::size_t bytes) const {
    return write(version_ == 2 ? "memory.max" : "memory.limit_in_bytes", std::to_string(bytes));
  }

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path inner() const { return folder_ / "inner"; }
  // Moves the calling process into the inner group.
  bool enter() const { return write("inner/cgroup.procs", std::to_string(::getpid())); }

 private:
  RealCgroup(int version, std::filesystem::path folder)
      : version_(version), folder_(std::move(folder)) {}

  bool write(const char* file, const std::string& text) const {
    const int fd = ::open((folder_ / file).c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool all = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::close(fd);
    return all;
  }

  int version_;
  std::filesystem::path folder_;
  bool made_ = false;
};

}  // namespace tandem::testing
