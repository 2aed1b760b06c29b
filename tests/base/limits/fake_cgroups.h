// A machine's cgroup files, written into the test's own folder.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/limits/cgroup.h"
#include "tests/support/temp_dir.h"

namespace tandem::testing {

class FakeCgroups {
 public:
  static constexpr int kPid = 4711;

  CgroupPaths paths() const { return {dir_.path() / "proc", dir_.path(), kPid}; }

  // The contents of /proc/self/cgroup: "0::/a/b\n".
  void groups(std::string_view lines) { dir_.write("proc/cgroup", lines); }
  // A line of /proc/self/mountinfo: `top` is the group that the mount shows at `point`.
  void mount(std::string_view top, std::string_view point, std::string_view type,
             std::string_view options = "rw") {
    mounts_ += fmt::format("31 23 0:28 {} {} rw,relatime shared:9 - {} cgroup {}\n", top, point,
                           type, options);
    dir_.write("proc/mountinfo", mounts_);
  }
  void write(std::string_view file, std::string_view text) {
    dir_.write(std::filesystem::path(file).relative_path(), text);
  }
  // The path as find_cgroups() returns it.
  std::filesystem::path at(std::string_view path) const {
    return dir_.path() / std::filesystem::path(path).relative_path();
  }

 private:
  TempDir dir_;
  std::string mounts_;
};

}  // namespace tandem::testing
