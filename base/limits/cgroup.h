// The control groups of this process, as folders whose files contain their limits.
//
// Linux has two kinds of hierarchies: version 2, one for all controllers, and version 1, one for
// each. A machine has one kind or both. A group's limit applies to every group below it.
//
// A container often has its own namespace, in which its group is called "/". Its mounts either have
// that group as their top, or show the whole hierarchy; then the group is found by this process's
// pid. Groups that no mount shows cannot be read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Where to read; by default this process and this machine.
struct CgroupPaths {
  std::filesystem::path proc = "/proc/self";  // has the files `cgroup` and `mountinfo`
  std::filesystem::path root = "/";           // prefix of mount points
  int pid = 0;                                // as in cgroup.procs; 0: getpid()
};

// A hierarchy that has the controller.
struct CgroupChain {
  int version = 2;                             // 1 or 2
  std::vector<std::filesystem::path> folders;  // the process's own group first, then its ancestors
};

// The hierarchies with `controller` ("cpu", "memory"); empty if none is mounted or readable.
// Version 2 is included even if the controller is not enabled in it.
std::vector<CgroupChain> find_cgroups(std::string_view controller, const CgroupPaths& paths = {});

// The first 64 KiB of a regular file; empty if it cannot be read.
std::string read_cgroup_file(const std::filesystem::path& path);

// The number at the beginning of `text`. Nothing for "max", negative numbers and numbers out of
// range.
std::optional<std::size_t> leading_number(std::string_view text);

}  // namespace tandem
