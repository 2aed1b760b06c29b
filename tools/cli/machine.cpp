#include "tools/cli/machine.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>

#include "base/parse_number.h"
#include "base/text/id_list.h"
#include "base/text/shown_text.h"
#include "base/threads/thread_cpus.h"

namespace tandem {
namespace {

// Returns the first line of `path` that begins with `key`, without the key and its colon.
std::string line_of(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return {};
}

}  // namespace

std::string cpu_name() {
  const std::string name = line_of("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown" : shown_text(name);
}

Result<std::vector<int>> parse_cpus(const std::string& text, std::string_view setting) {
  const std::vector<int> usable = cpus_of_thread();
  if (usable.empty()) {
    return error(StatusCode::unavailable,
                 "{}: the cores that this process may run on cannot be read: sched_getaffinity and "
                 "/proc/self/status are both forbidden",
                 setting);
  }
  return parse_cpus(text, setting, usable);
}

Result<std::vector<int>> parse_cpus(const std::string& text, std::string_view setting,
                                    const std::vector<int>& usable) {
  std::vector<int> cpus;
  std::string_view rest = text;
  const auto malformed = [&] {
    return invalid("{}: '{}' is not a list as in 0-3,8", setting, text);
  };
  while (true) {
    const auto first = take_number<int>(rest);
    if (!first || *first < 0) return malformed();
    int last = *first;
    if (rest.starts_with('-')) {
      rest.remove_prefix(1);
      const auto end = take_number<int>(rest);
      if (!end || *end < *first || *end > kMaxId) return malformed();
      last = *end;
    }
    for (int cpu = *first; cpu <= last; ++cpu) {
      if (!std::binary_search(usable.begin(), usable.end(), cpu)) {
        return invalid(
            "{}: this process may not run on core {}; it may on {} (`tandem pin plan` chooses)",
            setting, cpu, format_id_list(usable));
      }
      if (std::find(cpus.begin(), cpus.end(), cpu) != cpus.end()) {
        return invalid("{}: core {} is named twice", setting, cpu);
      }
      cpus.push_back(cpu);
    }
    if (rest.empty()) return cpus;
    if (!rest.starts_with(',')) return malformed();
    rest.remove_prefix(1);
  }
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  if (!(file >> total >> resident)) return 0;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t allow_open_files(std::size_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur >= wanted) return limit.rlim_cur;
  rlimit raised = limit;
  raised.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

}  // namespace tandem
