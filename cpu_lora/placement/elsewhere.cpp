#include "cpu_lora/placement/elsewhere.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "shm/region.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

std::string file_of(int pid, const char* name) {
  return fmt::format("/proc/{}/{}", pid, name);
}

// Whether its first argument is "serve".
bool serves(int pid) {
  std::ifstream file(file_of(pid, "cmdline"), std::ios::binary);
  std::string argument;
  return std::getline(file, argument, '\0') && std::getline(file, argument, '\0') &&
         argument == "serve";
}

bool has_other_mounts(int pid) {
  std::error_code failure;
  const fs::path ours = fs::read_symlink("/proc/self/ns/mnt", failure);
  if (failure) return false;
  const fs::path theirs = fs::read_symlink(file_of(pid, "ns/mnt"), failure);
  return !failure && ours != theirs;
}

// The process's pid in its own pid namespace: the last one of NSpid in its status.
std::string inner_pid(int pid) {
  std::ifstream file(file_of(pid, "status"));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("NSpid:")) return line.substr(line.find_last_of(" \t") + 1);
  }
  return std::to_string(pid);
}

// Whether the process has mapped the region. If its maps may not be read: whether it is an engine
// at all; false if there is no such process.
bool has_mapped(int pid, const std::string& region) {
  std::error_code failure;
  if (!fs::exists(file_of(pid, "maps"), failure)) return false;
  std::ifstream file(file_of(pid, "maps"));
  bool has_lines = false;
  for (std::string line; std::getline(file, line); has_lines = true) {
    if (line.ends_with(region)) return true;
  }
  return !has_lines && serves(pid);
}

}  // namespace

Status explain_missing_region(int pid) {
  if (!serves(pid) || !has_other_mounts(pid)) {
    return error(StatusCode::not_found, "there is no engine with pid {} that this user may inspect",
                 pid);
  }
  return error(StatusCode::unavailable,
               "process {0} serves in another mount namespace, such as a container's, and its "
               "/dev/shm is not the one seen here; look from there: nsenter -t {0} -m -p tandem "
               "pin check --engine {1}",
               pid, inner_pid(pid));
}

Status check_maker(int pid) {
  for (const FoundShmRegion& found : find_shm_regions("control")) {
    if (found.maker != pid) continue;
    if (has_mapped(pid, found.name)) return {};
    return error(StatusCode::unavailable,
                 "engine {} lives, as its lock in /dev/shm says, but not among the processes seen "
                 "here: it has a pid namespace of its own, such as a container's; run `tandem pin "
                 "check` there",
                 pid);
  }
  return error(StatusCode::not_found, "engine {} has ended; the next start removes what it left",
               pid);
}

}  // namespace tandem
