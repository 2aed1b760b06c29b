#include "base/limits/cgroup.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <system_error>

namespace tandem {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// On a machine of many containers, mountinfo has a line for each of their mounts.
constexpr std::size_t kMaxProcBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxFileBytes = std::size_t{64} << 10;
// The maximum number of folders in a search by pid; hosts have some hundred groups.
constexpr int kMaxFoldersSearched = 10'000;

std::string read_up_to(const fs::path& path, std::size_t max_bytes) {
  std::error_code failure;
  // Reading a pipe would block.
  if (!fs::is_regular_file(path, failure)) return {};
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes, '\0');
  std::string all;
  while (file && all.size() < max_bytes) {
    file.read(text.data(), static_cast<std::streamsize>(std::min(text.size(), max_bytes)));
    all.append(text, 0, static_cast<std::size_t>(file.gcount()));
  }
  return all;
}

Words split(std::string_view text, char separator) {
  Words words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

bool has(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// mountinfo writes blanks and backslashes in paths as \ooo.
std::string unescape(std::string_view text) {
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      out +=
          static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0');
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// A mount of a hierarchy that has the controller.
struct Mount {
  int version = 2;
  Words top;  // the group of its folder, from the namespace's root; may begin with ".."
  fs::path folder;
};

// Format of a line: id, parent, device, top, mount point, options, any number of tags, "-", type,
// source, options of the file system.
std::vector<Mount> find_mounts(std::string_view controller, const CgroupPaths& paths) {
  std::vector<Mount> mounts;
  for (const std::string& line : split(read_up_to(paths.proc / "mountinfo", kMaxProcBytes), '\n')) {
    const Words words = split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (dash - words.begin() < 6 || words.end() - dash < 4) continue;
    const std::string& type = *(dash + 1);
    const bool is_first = type == "cgroup" && has(split(*(dash + 3), ','), controller);
    if (!is_first && type != "cgroup2") continue;
    mounts.push_back({is_first ? 1 : 2, split(unescape(words[3]), '/'),
                      paths.root / fs::path(unescape(words[4])).relative_path()});
  }
  return mounts;
}

// The process's group, from the namespace's root, in the hierarchy with this controller; an empty
// name means version 2's. Format of a line: id, ":", controllers, ":", path.
std::optional<Words> own_group(std::string_view controller, const CgroupPaths& paths) {
  for (const std::string& line : split(read_up_to(paths.proc / "cgroup", kMaxProcBytes), '\n')) {
    const std::size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : has(split(names, ','), controller)) {
      return split(line.substr(second + 1), '/');
    }
  }
  return std::nullopt;
}

// Searches for the folder that lists the process: `unknown` levels below `folder`, then `known`.
class PidSearch {
 public:
  PidSearch(int pid, const Words& known) : pid_(std::to_string(pid)), known_(known) {}

  std::optional<fs::path> find(const fs::path& folder, std::size_t unknown) {
    if (++looked_at_ > kMaxFoldersSearched) return std::nullopt;
    if (unknown == 0) {
      fs::path own = folder;
      for (const std::string& name : known_) own /= name;
      const std::string listed = read_up_to(own / "cgroup.procs", kMaxProcBytes);
      return has(split(listed, '\n'), pid_) ? std::optional(own) : std::nullopt;
    }
    std::error_code failure;
    for (fs::directory_iterator each(folder, failure), end; !failure && each != end;
         each.increment(failure)) {
      std::error_code ignored;
      if (each->is_symlink(ignored) || !each->is_directory(ignored)) continue;
      if (auto found = find(each->path(), unknown - 1)) return found;
    }
    return std::nullopt;
  }

 private:
  const std::string pid_;
  const Words& known_;
  int looked_at_ = 0;
};

// The folder of `group`; the mount's own folder if it cannot be found.
fs::path own_folder(const Mount& mount, const Words& group, int pid) {
  auto [top, own] = std::mismatch(mount.top.begin(), mount.top.end(), group.begin(), group.end());
  const auto is_up = [](const std::string& name) { return name == ".."; };
  const Words below(own, group.end());
  // The group is outside what the mount shows, or a name would lead out of it.
  if (!std::all_of(top, mount.top.end(), is_up) || std::any_of(below.begin(), below.end(), is_up)) {
    return mount.folder;
  }
  const auto unknown = static_cast<std::size_t>(mount.top.end() - top);
  if (unknown > 0) {
    return PidSearch(pid, below).find(mount.folder, unknown).value_or(mount.folder);
  }
  fs::path folder = mount.folder;
  for (const std::string& name : below) folder /= name;
  std::error_code failure;
  return fs::is_directory(folder, failure) ? folder : mount.folder;
}

}  // namespace

std::vector<CgroupChain> find_cgroups(std::string_view controller, const CgroupPaths& paths) {
  std::vector<CgroupChain> chains;
  const int pid = paths.pid != 0 ? paths.pid : ::getpid();
  for (const Mount& mount : find_mounts(controller, paths)) {
    const auto group = own_group(mount.version == 1 ? controller : "", paths);
    if (!group) continue;
    CgroupChain chain{mount.version, {}};
    fs::path folder = own_folder(mount, *group, pid);
    for (; folder != mount.folder && folder.has_relative_path(); folder = folder.parent_path()) {
      chain.folders.push_back(folder);
    }
    chain.folders.push_back(mount.folder);
    chains.push_back(std::move(chain));
  }
  return chains;
}

std::string read_cgroup_file(const fs::path& path) {
  return read_up_to(path, kMaxFileBytes);
}

std::optional<std::size_t> leading_number(std::string_view text) {
  std::size_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc()) return std::nullopt;
  return value;
}

}  // namespace tandem
