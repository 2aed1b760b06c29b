// The control groups that this process is in, as folders whose files say what they allow.
//
// Linux has two kinds of hierarchies: version 2, one for all controllers, and version 1, one for
// each. A machine has one kind or both. A group's limit holds for every group below it.
//
// A container often has a namespace of its own, in which its group is called "/". Its mounts show
// either that group as their top, or the whole hierarchy: then the group is looked for by this
// process's pid. Groups that no mount shows cannot be read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Where to look; the defaults are this process and this machine.
struct CgroupPaths {
  std::filesystem::path proc = "/proc/self";  // has the files `cgroup` and `mountinfo`
  std::filesystem::path root = "/";           // that mount points are below
  int pid = 0;                                // as cgroup.procs lists it; 0: getpid()
};

// One hierarchy that has the controller.
struct CgroupChain {
  int version = 2;                             // 1 or 2
  std::vector<std::filesystem::path> folders;  // the process's own group first, then those above it
};

// The chains that have `controller` ("cpu", "memory"); empty where none is mounted or can be read.
// Those of version 2 are there whether or not the controller is enabled in them.
std::vector<CgroupChain> find_cgroups(std::string_view controller, const CgroupPaths& paths = {});

// The first 64 KiB of a regular file; empty where it cannot be read.
std::string read_cgroup_file(const std::filesystem::path& path);

// The number that `text` begins with. Nothing for "max", for negative numbers and for what does not
// fit.
std::optional<std::size_t> leading_number(std::string_view text);

}  // namespace tandem
